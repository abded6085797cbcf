class FactoredApg:
    slug="factors"; name="x"
def chosen(problem): return False
