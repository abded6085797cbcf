"""Estimators with scikit-learn's interface; needs the extra ``sklearn``."""
