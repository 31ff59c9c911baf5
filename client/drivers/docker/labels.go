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

// labelsOf returns the labels of a task's container. A job cannot replace those of berth.
func (d *Driver) labelsOf(cfg *driver.TaskConfig, own map[string]string) (map[string]string, error) {
	logs, err := json.Marshal(logSettingsOf(cfg))
	if err != nil {
		return nil, err
	}
	labels := map[string]string{}
	maps.Copy(labels, own)
	allocID, _ := splitID(cfg.ID)
	maps.Copy(labels, map[string]string{
		labelNode:    d.options.NodeID,
		labelTask:    cfg.ID,
		labelLogs:    string(logs),
		labelDialect: allocID,
		labelPause:   "", // an image or a job may have one, and would be taken for a pause container
		// The others are for operators.
		"berth.node_name":  d.options.NodeName,
		"berth.alloc_id":   allocID,
		"berth.alloc_name": cfg.Of.Alloc,
		"berth.namespace":  cfg.Of.Namespace,
		"berth.job_id":     cfg.Of.JobID,
		"berth.job_name":   cfg.Of.JobName,
		"berth.task_group": cfg.Of.Group,
		"berth.task":       cfg.Task,
	})
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
