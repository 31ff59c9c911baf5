package csihooks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/client/hooks"
	"berth/csi"
	"berth/internal/backoff"
	"berth/structs"
)

// health is the result of one probe of a plugin.
type health int

const (
	broken   health = iota // no answer, or an error
	starting               // it answers that it is not ready yet
	healthy
)

// watch follows the plugin's health while its process runs. It registers the plugin when it is healthy for
// the first time. An existing registration belongs to this very process, from before the agent restarted.
func (s *supervisor) watch(ctx context.Context, task hooks.Control) {
	client, err := csi.Dial(s.socket(), csi.Options{
		Name:    s.plugin.ID,
		Logger:  s.logger,
		Timeout: s.ProbeTimeout,
	})
	if err != nil {
		task.Restart(err.Error()) // impossible: Up has checked the path of the socket
		return
	}
	defer func() {
		if err := client.Close(); err != nil {
			s.logger.Debug("failed to close the plugin connection", "error", err)
		}
	}()

	if !s.registered() && !s.watchStart(ctx, task, client) {
		return
	}

	s.watchHealth(ctx, task, client)
}

// watchStart probes often until the plugin is healthy and registered. It reports false if ctx ended, or if
// the plugin has to restart because it did not answer for health_timeout. It waits without limit for a plugin
// that answers that it is starting, and for a plugin whose ID another driver serves here.
func (s *supervisor) watchStart(ctx context.Context, task hooks.Control, client *csi.Client) bool {
	deadline := time.Now().Add(s.plugin.HealthTimeout)
	emitted := s.markedUnhealthy() // by an earlier agent, of this process
	// Each answer gives the plugin its whole time again, because it is alive. One event is enough.
	extendDeadline := func(kind, format string, args ...any) {
		deadline = time.Now().Add(s.plugin.HealthTimeout)
		if !emitted {
			emitted = true
			task.Emit(s.pluginEvent(kind, format, args...))
			s.markHealth(false)
		}
	}

	for {
		h, err := s.probe(ctx, client)
		if h == healthy {
			err = s.registerHealthy(ctx, client)
		}

		pause := s.StartInterval
		switch {
		// The end of ctx fails the probe, too.
		case ctx.Err() != nil:
			return false
		case h == healthy && err == nil:
			task.Emit(s.pluginEvent(structs.TaskEventPluginHealthy, "is healthy"))
			return true
		case errors.Is(err, registry.ErrOtherDriver):
			extendDeadline(structs.TaskEventPluginUnhealthy, "is not used: %v", err)
			pause = otherDriverPause * s.StartInterval
		case h == starting:
			extendDeadline(structs.TaskEventHookMessage, "answers that it is still starting")
		case err != nil && time.Now().After(deadline):
			s.restart(task, "did not become healthy within %s: %v", s.plugin.HealthTimeout, err)
			return false
		}

		if !backoff.Sleep(ctx, pause) {
			return false
		}
	}
}

// otherDriverPause is the number of start intervals between two attempts to register beside another driver.
const otherDriverPause = 10

// restart restarts the plugin under the task's restart policy, which bounds the number of restarts.
func (s *supervisor) restart(task hooks.Control, format string, args ...any) {
	e := s.pluginEvent(structs.TaskEventPluginUnhealthy, format, args...)
	task.Emit(e)
	task.Restart(e.Message)
}

// registerHealthy registers the plugin under the name and the version that it tells.
func (s *supervisor) registerHealthy(ctx context.Context, client *csi.Client) error {
	info, err := client.PluginInfo(ctx)
	if err != nil {
		return err
	}

	if err := s.register(info); err != nil {
		return err
	}
	s.markHealth(true)
	return nil
}

// watchHealth emits an event after each change of the plugin's health. It restarts a plugin that answers no
// probe for hang_timeout, because its users cannot continue anyway. It does not restart a plugin that
// answers, even with errors: the mounts that tasks use may end with its process.
func (s *supervisor) watchHealth(ctx context.Context, task hooks.Control, client *csi.Client) {
	// A registered plugin was healthy once. The mark tells whether it still was at the last event.
	wasHealthy := !s.markedUnhealthy()
	answered := time.Now()
	for {
		h, err := s.probe(ctx, client)
		if ctx.Err() != nil {
			return
		}

		if isHealthy := h == healthy; isHealthy != wasHealthy {
			s.healthChanged(task, h, err)
			wasHealthy = isHealthy
		}

		left := s.plugin.HangTimeout
		if isUnanswered(err) {
			left -= time.Since(answered)
		} else {
			// An error is an answer, too.
			answered = time.Now()
		}

		if left <= 0 {
			s.restart(task, "has answered no probe for %s and is restarted: %v",
				s.plugin.HangTimeout, err)
			return
		}

		// A silent plugin is probed once more at the end of its time.
		if !backoff.Sleep(ctx, min(s.ProbeInterval, left)) {
			return
		}
	}
}

// healthChanged emits the event of a change.
func (s *supervisor) healthChanged(task hooks.Control, h health, err error) {
	e := s.pluginEvent(structs.TaskEventPluginHealthy, "is healthy again")
	if h != healthy {
		e = s.pluginEvent(structs.TaskEventPluginUnhealthy,
			"is not healthy: %s", describeHealth(h, err))
	}
	task.Emit(e)
	s.markHealth(h == healthy)
}

// isUnanswered reports whether a probe failed without an answer of the plugin.
func isUnanswered(err error) bool {
	code := csi.Code(err)
	return code == "DeadlineExceeded" || code == "Unavailable"
}

// unhealthyMark is a file in the socket's directory. It exists while the last event on the plugin's health
// reports that the plugin is not healthy.
func (s *supervisor) unhealthyMark() string {
	return filepath.Join(s.socketDir, "unhealthy")
}

// markedUnhealthy reports whether the last event told that the plugin is not healthy.
func (s *supervisor) markedUnhealthy() bool {
	_, err := os.Lstat(s.unhealthyMark())
	return err == nil
}

// markHealth marks the last event for the next agent, which would emit it again.
func (s *supervisor) markHealth(healthy bool) {
	err := mounts.Remove(s.unhealthyMark())
	if !healthy {
		err = os.WriteFile(s.unhealthyMark(), nil, 0o600)
	}
	if err != nil {
		s.logger.Warn("failed to mark the plugin's health", "error", err)
	}
}

func describeHealth(h health, err error) string {
	if h == starting {
		return "it answers that it is not ready"
	}
	return err.Error()
}

// probe makes one call. The error is nil unless the plugin is broken.
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
