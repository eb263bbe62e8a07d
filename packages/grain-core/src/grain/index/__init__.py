"""Index arithmetic of pipelines: functions of an int or an int64 array, independent of datasets."""
