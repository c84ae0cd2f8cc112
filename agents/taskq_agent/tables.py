"""Tables of pandas as JSON: frames, series, indices and single times, without a pickle.

    {"$frame": [names, index, [column, ...], attrs]}    {"$series": [column, index, name, attrs]}

A column is an array of NumPy, or the parts of an array of pandas: codes and categories, values and
what is missing, texts, times and their zone. Columns of other types, such as periods, and classes
that are derived from pandas' own, have no such form. pandas checks the parts when it makes the
arrays. A column of texts is stored in the way that the reader's pandas prefers.
"""

from __future__ import annotations

import importlib
import sys
from datetime import tzinfo
from typing import Any, Callable, Dict, List, Optional

Inner = Callable[[Any], Any]

_MASKED = {"i": "IntegerArray", "u": "IntegerArray", "f": "FloatingArray", "b": "BooleanArray"}
_TEXTS = ("str", "string")
_KINDS = "biufcmMO"
#: Columns of a frame, and levels of an index: pandas takes some 20 us and 2 KB for each.
MOST_COLUMNS = 100_000


class _NoForm(Exception):
    """A part has no form in JSON."""


def encoded(value: Any, inner: Inner) -> Optional[Dict[str, Any]]:
    """Return a table as JSON; None for anything else, and for tables that have no such form.

    inner: makes JSON of what a table consists of.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not hasattr(pandas, "DataFrame"):  # it is being imported
        return None
    kind = type(value)
    try:
        if kind is pandas.DataFrame and value.shape[1] <= MOST_COLUMNS:
            columns = [_column(pandas, value.iloc[:, at], inner) for at in range(value.shape[1])]
            names, rows = (_index(pandas, index, inner) for index in (value.columns, value.index))
            return {"$frame": [names, rows, columns, inner(dict(value.attrs))]}
        if kind is pandas.Series:
            column, rows = _column(pandas, value, inner), _index(pandas, value.index, inner)
            return {"$series": [column, rows, inner(value.name), inner(dict(value.attrs))]}
        if issubclass(kind, pandas.Index):
            return {"$index": _index(pandas, value, inner)}
    except _NoForm:
        return None
    if value is pandas.NA or value is pandas.NaT:
        return {"$missing": "NA" if value is pandas.NA else "NaT"}
    if kind is pandas.Timestamp:
        return {"$timestamp": [inner(value.to_datetime64()), inner(value.tz)]}
    if kind is pandas.Timedelta:
        return {"$duration": inner(value.to_timedelta64())}
    return None


def _column(pandas: Any, values: Any, inner: Inner) -> Dict[str, Any]:
    """Return the values of a series or an index as JSON."""
    array, dtype = values.array, values.dtype
    if dtype.kind in _KINDS and not pandas.api.types.is_extension_array_dtype(dtype):
        return {"plain": inner(values.to_numpy())}
    if isinstance(dtype, pandas.DatetimeTZDtype):
        return {"times": inner(array.tz_convert(None).to_numpy()), "zone": inner(dtype.tz)}
    if isinstance(dtype, pandas.CategoricalDtype):
        categories = _index(pandas, dtype.categories, inner)
        return {"codes": inner(array.codes), "of": categories, "ordered": dtype.ordered}
    if isinstance(dtype, pandas.StringDtype):
        texts = [None if pandas.isna(text) else inner(str(text)) for text in array]
        return {"texts": texts, "type": str(dtype)}
    if dtype.kind in _MASKED and type(array).__name__ == _MASKED[dtype.kind]:
        known = array.to_numpy(dtype=dtype.numpy_dtype, na_value=dtype.numpy_dtype.type(0))
        return {"known": inner(known), "missing": inner(array.isna())}
    raise _NoForm


def _index(pandas: Any, index: Any, inner: Inner) -> Dict[str, Any]:
    names = [inner(name) for name in index.names]
    if isinstance(index, pandas.RangeIndex):
        return {"range": [index.start, index.stop, index.step], "names": names}
    if isinstance(index, pandas.MultiIndex):
        levels = [_index(pandas, level, inner) for level in index.levels]
        return {"levels": levels, "codes": [inner(code) for code in index.codes], "names": names}
    column = _column(pandas, index, inner)
    return {"column": column, "names": names, "freq": getattr(index, "freqstr", None)}


def decoded(name: str, stored: Any, inner: Inner) -> Any:
    """Return the table of JSON; an error of pandas' or Python's if there is none.

    inner: makes values of JSON.
    """
    return _MAKERS[name](importlib.import_module("pandas"), stored, inner)


def is_table(name: str) -> bool:
    """Return whether a mark is one of these."""
    return name in _MAKERS


def _frame(pandas: Any, stored: Any, inner: Inner) -> Any:
    names, rows, columns, attrs = stored
    index, titles = _index_again(pandas, rows, inner), _index_again(pandas, names, inner)
    if not isinstance(columns, list) or len(titles) != len(columns):
        raise ValueError("other columns than names")
    if len(columns) > MOST_COLUMNS:
        raise ValueError(f"{len(columns)} columns; {MOST_COLUMNS} at most")
    made = {at: _series_of(pandas, column, index, inner) for at, column in enumerate(columns)}
    frame = pandas.DataFrame(made, index=index, copy=False)
    frame.columns = titles
    frame.attrs.update(inner(attrs))
    return frame


def _series(pandas: Any, stored: Any, inner: Inner) -> Any:
    column, rows, name, attrs = stored
    made = _series_of(pandas, column, _index_again(pandas, rows, inner), inner)
    made.name = inner(name)
    made.attrs.update(inner(attrs))
    return made


def _series_of(pandas: Any, column: Any, index: Any, inner: Inner) -> Any:
    array = _array(pandas, column, inner)
    if len(array) != len(index):
        raise ValueError(f"a column of {len(array)} values for {len(index)} rows")
    return pandas.Series(array, index=index, dtype=array.dtype, copy=False)


def _array(pandas: Any, column: Any, inner: Inner) -> Any:
    """Return the array of a column: of NumPy, or of pandas."""
    if "plain" in column:
        return _of_numpy(inner(column["plain"]), _KINDS)
    if "times" in column:
        times = pandas.DatetimeIndex(_of_numpy(inner(column["times"]), "M"))
        return times.tz_localize("UTC").tz_convert(_zone(column["zone"], inner)).array
    if "codes" in column:
        of = _index_again(pandas, column["of"], inner)
        codes = _of_numpy(inner(column["codes"]), "i")
        return pandas.Categorical.from_codes(codes, of, ordered=bool(column["ordered"]))
    if "texts" in column:
        texts: List[Any] = [None if text is None else inner(text) for text in column["texts"]]
        if column["type"] not in _TEXTS or not all(
            text is None or type(text) is str for text in texts
        ):
            raise ValueError("no column of texts")
        return pandas.array(texts, dtype=column["type"])
    known = _of_numpy(inner(column["known"]), "".join(_MASKED))
    missing = _of_numpy(inner(column["missing"]), "b")
    return getattr(pandas.arrays, _MASKED[known.dtype.kind])(known, missing)


def _of_numpy(array: Any, kinds: str, *, ndim: int = 1) -> Any:
    numpy = importlib.import_module("numpy")
    if not isinstance(array, (numpy.ndarray, numpy.generic)):
        raise TypeError("no array of NumPy")
    if array.ndim != ndim or array.dtype.kind not in kinds:
        raise ValueError("no column of a table")
    return array


def _index_again(pandas: Any, stored: Any, inner: Inner) -> Any:
    names = [inner(name) for name in stored["names"]]
    if "range" in stored:
        made = pandas.RangeIndex(*stored["range"])
    elif "levels" in stored:
        levels = [_index_again(pandas, level, inner) for level in stored["levels"]]
        codes = [_of_numpy(inner(code), "i") for code in stored["codes"]]
        made = pandas.MultiIndex(levels, codes)
    else:
        array = _array(pandas, stored["column"], inner)
        made = pandas.Index(array, dtype=array.dtype)
        if stored["freq"] is not None and isinstance(
            made, (pandas.DatetimeIndex, pandas.TimedeltaIndex)
        ):
            made.freq = str(stored["freq"])
    made.names = names
    return made


def _timestamp(pandas: Any, stored: Any, inner: Inner) -> Any:
    moment, zone = stored
    made = pandas.Timestamp(_of_numpy(inner(moment), "M", ndim=0))
    return made if zone is None else made.tz_localize("UTC").tz_convert(_zone(zone, inner))


def _zone(stored: Any, inner: Inner) -> tzinfo:
    """Return a time zone; a text could name any file to some readers of zones."""
    zone = inner(stored)
    if not isinstance(zone, tzinfo):
        raise TypeError("no time zone")
    return zone


_MAKERS: Dict[str, Callable[[Any, Any, Inner], Any]] = {
    "$frame": _frame,
    "$series": _series,
    "$index": _index_again,
    "$missing": lambda pandas, stored, _: {"NA": pandas.NA, "NaT": pandas.NaT}[stored],
    "$timestamp": _timestamp,
    "$duration": lambda pandas, stored, inner: pandas.Timedelta(
        _of_numpy(inner(stored), "m", ndim=0)
    ),
}
