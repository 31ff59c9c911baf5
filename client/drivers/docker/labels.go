package docker

import (
	"encoding/json"
	"maps"
	"regexp"
	"strings"

	"berth/client/drivers/docker/engine"
	"berth/client/drivers/driver"
)

// The labels of a container. They have all that the driver needs to take up a task without a record.
const (
	labelNode = ownPrefix + "node_id"
	labelTask = ownPrefix + "task_id" // "<alloc id>/<task>"
	labelLogs = ownPrefix + "logs"    // logSettings in JSON
	// ownPrefix begins the names of the labels of berth.
	ownPrefix = "berth."
	// labelDialect is known to programs that collect logs and metrics of containers.
	labelDialect = dialectPrefix + "alloc_id"
	// dialectPrefix begins the names of the labels of the dialect.
	dialectPrefix = "com.hashicorp.nomad."
)

// extraLabels make the labels of taskconfig.LabelNames.
var extraLabels = map[string]func(o *Options, cfg *driver.TaskConfig) string{
	"job_name":        func(_ *Options, cfg *driver.TaskConfig) string { return cfg.Of.JobName },
	"job_id":          func(_ *Options, cfg *driver.TaskConfig) string { return cfg.Of.JobID },
	"task_group_name": func(_ *Options, cfg *driver.TaskConfig) string { return cfg.Of.Group },
	"task_name":       func(_ *Options, cfg *driver.TaskConfig) string { return cfg.Task },
	"namespace":       func(_ *Options, cfg *driver.TaskConfig) string { return cfg.Of.Namespace },
	"node_name":       func(o *Options, _ *driver.TaskConfig) string { return o.NodeName },
	"node_id":         func(o *Options, _ *driver.TaskConfig) string { return o.NodeID },
}

// addExtraLabels adds the labels that the node selects.
func (c *containers) addExtraLabels(labels map[string]string, cfg *driver.TaskConfig) {
	for name, value := range extraLabels {
		if c.cfg.SelectsLabel(name) {
			labels[dialectPrefix+name] = value(c.options, cfg)
		}
	}
}

// labelsOf returns the labels of a task's container. A job cannot replace berth's own. The container inherits
// the labels of its image that it does not replace. An image must not say what berth says of a container, for
// example its job, so such labels become empty.
func (c *containers) labelsOf(
	cfg *driver.TaskConfig, own, inherited map[string]string,
) (map[string]string, error) {
	logs, err := json.Marshal(logSettingsOf(cfg))
	if err != nil {
		return nil, err
	}

	labels := map[string]string{}
	for name := range inherited {
		if strings.HasPrefix(name, ownPrefix) || strings.HasPrefix(name, dialectPrefix) {
			labels[name] = ""
		}
	}

	maps.Copy(labels, own)
	allocID, _ := splitID(cfg.ID)
	maps.Copy(labels, map[string]string{
		labelNode:    c.options.NodeID,
		labelTask:    cfg.ID,
		labelLogs:    string(logs),
		labelDialect: allocID,
		labelPause:   "", // an image or a job may have one, and would be taken for a pause container
		// The others are for operators.
		"berth.node_name":  c.options.NodeName,
		"berth.alloc_id":   allocID,
		"berth.alloc_name": cfg.Of.Alloc,
		"berth.namespace":  cfg.Of.Namespace,
		"berth.job_id":     cfg.Of.JobID,
		"berth.job_name":   cfg.Of.JobName,
		"berth.task_group": cfg.Of.Group,
		"berth.task":       cfg.Task,
	})

	c.addExtraLabels(labels, cfg)
	return labels, nil
}

func logSettingsOf(cfg *driver.TaskConfig) logSettings {
	return logSettings{
		Dir:           cfg.Dirs.Logs,
		Task:          cfg.Task,
		MaxFiles:      cfg.LogConfig.MaxFiles,
		MaxFileSizeMB: cfg.LogConfig.MaxFileSizeMB,
		Disabled:      cfg.LogConfig.Disabled,
	}
}

// isOurs reports whether a container runs a task of this node.
func (c *containers) isOurs(found *engine.Container, taskID string) bool {
	return found.Config.Labels[labelNode] == c.options.NodeID && found.Config.Labels[labelTask] == taskID
}

// taskOf makes the task of a container from its labels.
func taskOf(c *engine.Container) *task {
	t := &task{
		id:        c.Config.Labels[labelTask],
		container: c.ID,
		image:     c.Image,
	}
	err := json.Unmarshal([]byte(c.Config.Labels[labelLogs]), &t.logs)
	if err != nil {
		t.logs.Disabled = true // another program has changed the label
	}
	return t
}

// splitID splits a task's ID.
func splitID(id string) (allocID, name string) {
	allocID, name, _ = strings.Cut(id, "/")
	return allocID, name
}

var notInName = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)

// maxTaskInName bounds the part of a task's name in the name of its container, which is a host name, too.
const maxTaskInName = 128

// containerName is <task>-<alloc id>. Two tasks of an allocation whose names differ in replaced characters
// get one name. The labels tell them apart, so the start of the second one is a conflict.
func containerName(taskID string) string {
	allocID, name := splitID(taskID)
	name = notInName.ReplaceAllString(name, "_") + "-"
	if len(name) > maxTaskInName {
		name = name[:maxTaskInName] + "-"
	}
	if strings.Trim(name[:1], "_.-") == "" {
		name = "task" + name // a container's name begins with a letter or a digit
	}
	return name + allocID
}
