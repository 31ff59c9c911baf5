package refdocs

// logTexts explains the outermost settings of the log file, and of those who look into a process.
var logTexts = []settingText{
	{
		"log_file", "none",
		"the absolute path of a file that gets the log besides standard error, see [The log " +
			"file](../operations/monitoring.md#the-log-of-an-agent); of a path that ends with `/` the file is `berth.log` there",
	},
	{
		"enable_debug", "",
		"while access control is off, everybody who reaches the agent may read profiles of its process, " +
			"facts about its machine, its log files and all levels of its log; with access control their tokens decide",
	},
	{"log_rotate_bytes", "100MiB", "the size at which the log file is renamed"},
	{"log_rotate_duration", "", "the age at which the log file is renamed"},
	{"log_rotate_max_files", "7", "how many renamed log files are kept: 0 keeps all, -1 keeps none"},
}
