package hooks

import (
	"context"
	"time"

	"berth/client/hook"
	"berth/client/retry"
	"berth/csi"
	"berth/structs"
)

// health is what one probe of a plugin said.
type health int

const (
	broken   health = iota // no answer, or an error
	starting               // it answers that it is not ready yet
	healthy
)

// watch follows the plugin's health for as long as its process runs: until it is healthy for the first
// time, when it is registered, and lightly from then on. A registration that is there already is that of
// this very process, from before the agent restarted: it stands.
func (s *supervisor) watch(ctx context.Context, task hook.Control) {
	client, err := csi.Dial(ctx, s.socket(), s.logger, csi.WithName(s.plugin.ID), csi.WithTimeout(s.ProbeTimeout))
	if err != nil {
		task.Restart(err.Error()) // the socket's path was checked: it does not come to this
		return
	}
	defer func() {
		if err := client.Close(); err != nil {
			s.logger.Debug("closing the plugin connection", "error", err)
		}
	}()
	if !s.registered() && !s.watchStart(ctx, task, client) {
		return
	}
	s.watchHealth(ctx, task, client)
}

// watchStart probes often until the plugin is healthy and registered. It reports false when ctx ended or
// the plugin is to be restarted, because it gave no answer for as long as health_timeout. A plugin that
// answers that it is starting is given all the time it takes.
func (s *supervisor) watchStart(ctx context.Context, task hook.Control, client *csi.Client) bool {
	deadline := time.Now().Add(s.plugin.HealthTimeout)
	for said := false; ; {
		h, err := s.probe(ctx, client)
		switch {
		case ctx.Err() != nil:
			return false
		case h == healthy:
			if err = s.enter(ctx, client); err == nil {
				task.Emit(s.pluginEvent(structs.TaskEventPluginHealthy, "is healthy"))
				return true
			}
		case h == starting:
			deadline = time.Now().Add(s.plugin.HealthTimeout)
			if !said {
				said = true
				task.Emit(s.pluginEvent(structs.TaskEventHookMessage, "answers that it is still starting"))
			}
		}
		if err != nil && time.Now().After(deadline) {
			e := s.pluginEvent(structs.TaskEventPluginUnhealthy, "did not become healthy within %s: %v", s.plugin.HealthTimeout, err)
			task.Emit(e)
			task.Restart(e.Message)
			return false
		}
		if !retry.Sleep(ctx, s.StartInterval) {
			return false
		}
	}
}

func (s *supervisor) enter(ctx context.Context, client *csi.Client) error {
	info, err := client.PluginInfo(ctx)
	if err != nil {
		return err
	}
	return s.register(info)
}

// watchHealth tells each time when the plugin's health has changed. It restarts nothing: with the process
// of a plugin may go the mounts that tasks use.
func (s *supervisor) watchHealth(ctx context.Context, task hook.Control, client *csi.Client) {
	was := healthy
	for {
		h, err := s.probe(ctx, client)
		if ctx.Err() != nil {
			return
		}
		if (h == healthy) != (was == healthy) {
			e := s.pluginEvent(structs.TaskEventPluginHealthy, "is healthy again")
			if h != healthy {
				e = s.pluginEvent(structs.TaskEventPluginUnhealthy, "is not healthy: %s", why(h, err))
			}
			task.Emit(e)
		}
		was = h
		if !retry.Sleep(ctx, s.ProbeInterval) {
			return
		}
	}
}

func why(h health, err error) string {
	if h == starting {
		return "it answers that it is not ready"
	}
	return err.Error()
}

// probe asks once. The error is nil unless the plugin is broken.
func (s *supervisor) probe(ctx context.Context, client *csi.Client) (health, error) {
	ctx, cancel := context.WithTimeout(ctx, s.ProbeTimeout)
	defer cancel()
	ready, err := client.Probe(ctx)
	switch {
	case err != nil:
		return broken, err
	case !ready:
		return starting, nil
	}
	return healthy, nil
}
