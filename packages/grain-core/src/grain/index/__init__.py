"""Integer algebra behind every pipeline: functions of an int or an int64 array that know no dataset."""
