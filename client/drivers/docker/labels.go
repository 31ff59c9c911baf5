package docker

import (
	"encoding/json"
	"maps"
	"regexp"
	"strings"

	"berth/client/driver"
	"berth/client/drivers/docker/engine"
)

// The labels of a container. They have all that the driver needs to take up a task without a record.
const (
	labelNode = "berth.node_id"
	labelTask = "berth.task_id" // "<alloc id>/<task>"
	labelLogs = "berth.logs"    // logSettings in JSON
	// labelDialect is known to programs that collect logs and metrics of containers.
	labelDialect = "com.hashicorp.nomad.alloc_id"
)

// shownLabels are for operators. Their values are variables of the task's environment.
var shownLabels = map[string]string{
	"berth.alloc_id":   "BERTH_ALLOC_ID",
	"berth.alloc_name": "BERTH_ALLOC_NAME",
	"berth.namespace":  "BERTH_NAMESPACE",
	"berth.job_id":     "BERTH_JOB_ID",
	"berth.job_name":   "BERTH_JOB_NAME",
	"berth.task_group": "BERTH_GROUP_NAME",
	"berth.task":       "BERTH_TASK_NAME",
}

// labelsOf returns the labels of a task's container. A job cannot replace those of berth.
func (d *Driver) labelsOf(cfg *driver.TaskConfig, own map[string]string) (map[string]string, error) {
	logs, err := json.Marshal(logSettingsOf(cfg))
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	maps.Copy(labels, own)
	for label, variable := range shownLabels {
		labels[label] = cfg.Env[variable]
	}
	allocID, _ := splitID(cfg.ID)
	labels["berth.node_name"] = d.options.NodeName
	labels[labelDialect] = allocID
	labels[labelNode] = d.options.NodeID
	labels[labelTask] = cfg.ID
	labels[labelLogs] = string(logs)
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

// isOurs reports whether a container is that of a task of this node.
func (d *Driver) isOurs(c *engine.Container, taskID string) bool {
	return c.Config.Labels[labelNode] == d.options.NodeID && c.Config.Labels[labelTask] == taskID
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

// maxTaskInName bounds the part of a task's name in that of its container, which is a host name, too.
const maxTaskInName = 128

// containerName is <task>-<alloc id>.
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
