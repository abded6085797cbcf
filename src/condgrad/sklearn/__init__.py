"""Estimators with scikit-learn's interface; needs the extra ``sklearn``."""

try:
    from sklearn.utils.validation import validate_data as _  # noqa: F401  # since 1.6
except ImportError:
    text = "condgrad.sklearn needs scikit-learn 1.6 or newer: install condgrad[sklearn]"
    raise ImportError(text) from None

from condgrad.sklearn._certification import Certification
from condgrad.sklearn.clustering import SDPKMeans, certify
from condgrad.sklearn.completion import MatrixCompletion
from condgrad.sklearn.correlation import CorrelationClustering

__all__ = ["Certification", "CorrelationClustering", "MatrixCompletion", "SDPKMeans", "certify"]
