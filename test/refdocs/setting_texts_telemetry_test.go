package refdocs

// telemetryTexts explains the settings of the metrics.
var telemetryTexts = blockText{
	Block: "telemetry", Intro: "The metrics of the agent, see " +
		"[Metrics](../operations/monitoring.md#metrics).", Settings: []settingText{
		{
			"collection_interval", "",
			"the time between two readings of the Go runtime, of tasks and of the machine, 1s to 1h",
		},
		{"in_memory_collection_interval", "", "the interval of one JSON answer, 1s to 1h"},
		{
			"in_memory_retention_period", "",
			"the time for which finished intervals are kept, up to 24h and 1,000 intervals",
		},
		{"prometheus_metrics", "", "serve `format=prometheus`"},
		{
			"prometheus_retention", "",
			"the time for which a series without updates is served; 0 for ever",
		},
		{"statsd_address", "", "host:port of a server that receives every metric"},
		{"statsite_address", "", "likewise"},
		{
			"prefix_filter", "",
			"`[\"+berth.raft\", \"-berth.raft.net\"]` keeps the first and drops the second",
		},
		{"filter_default", "", "keep metrics without a matching prefix"},
		{
			"dialect_names", "",
			"serve metrics also under the names of the dialect, see [Dashboards of the " +
				"dialect](../operations/monitoring.md#dashboards-of-the-dialect)",
		},
		{"publish_allocation_metrics", "", "measure the tasks of the node at each `collection_interval`"},
		{"publish_node_metrics", "", "measure the machine of the node at each `collection_interval`"},
		{"disable_hostname", "", "leave the label `host` out of the metrics of the dialect"},
		{
			"disable_dispatched_job_summary_metrics", "",
			"leave out the summaries of the jobs that dispatches have started",
		},
	},
}
