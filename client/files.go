package client

import (
	"berth/client/allocrunner/taskdirs"
	"berth/structs"
)

// LogFiles returns the directory that holds <task>.<kind>.N, the logs of a task of an allocation on this
// node. kind is stdout or stderr. ended is closed when the task is dead. The error is not-found if the
// allocation is not here, and invalid if it has no such task.
func (c *Client) LogFiles(allocID, task, kind string) (dir string, ended <-chan struct{}, err error) {
	if kind != "stdout" && kind != "stderr" {
		return "", nil, structs.Invalidf("a task has the logs stdout and stderr, not %q", kind)
	}
	r := c.runner(allocID)
	if r == nil {
		return "", nil, structs.NotFoundf("allocation %s is not on this node", allocID)
	}
	ended, err = r.TaskDead(task)
	if err != nil {
		return "", nil, err
	}
	return taskdirs.Logs(r.Dir()), ended, nil
}

// AllocDir returns the directory of an allocation on this node. ended is closed when every task is dead and
// every hook is down. The error is not-found if the allocation is not here.
func (c *Client) AllocDir(allocID string) (dir string, ended <-chan struct{}, err error) {
	r := c.runner(allocID)
	if r == nil {
		return "", nil, structs.NotFoundf("allocation %s is not on this node", allocID)
	}
	return r.Dir(), r.Unwound(), nil
}
