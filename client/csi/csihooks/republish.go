package csihooks

import (
	"context"
	"fmt"
	"time"

	"berth/client/csi/registry"
	"berth/client/csi/volumes"
	"berth/client/hooks"
	"berth/csi"
	"berth/internal/backoff"
	"berth/structs"
)

// maxLook is the time after which a task looks again whether a volume has to be published again: another
// version of its driver may ask for tokens, and a machine may sleep.
const maxLook = time.Minute

// addTokens returns the function that adds the tokens to a call of the plugin.
func (h *volumesHook) addTokens(w *requiredVolume) func(context.Context, *registry.Instance, *csi.Use) error {
	return func(ctx context.Context, plugin *registry.Instance, args *csi.Use) error {
		signer := TokenSigner{Servers: h.Servers, Node: h.Node}
		renew, err := signer.Add(ctx, h.alloc.ID, plugin, args)
		if err == nil && h.Renewals != nil && !renew.IsZero() {
			h.Renewals.Of(h.alloc.ID, w.VolumeKey.String()).Set(renew)
		}
		return err
	}
}

// NewRepublisher makes the hook of a task that has the volumes of the task published again before the tokens
// of their drivers end. It is nil for a task without such a volume.
func NewRepublisher(cfg VolumesConfig, env *hooks.AllocEnv, task *structs.Task) hooks.Task {
	if cfg.Renewals == nil || len(task.VolumeMounts) == 0 {
		return nil
	}

	h := NewVolumes(cfg, env).(*volumesHook)
	all, err := h.requiredVolumes()
	r := &republisher{of: h, said: map[volumes.VolumeKey]string{}}
	for _, w := range all {
		if usesAny(task, w.aliases) {
			r.volumes = append(r.volumes, w)
		}
	}
	if err != nil || len(r.volumes) == 0 {
		return nil // the hook of the volumes tells the error
	}
	return r
}

// usesAny reports whether a task mounts a volume by one of its aliases.
func usesAny(task *structs.Task, aliases []string) bool {
	for _, m := range task.VolumeMounts {
		for _, alias := range aliases {
			if m != nil && m.Volume == alias {
				return true
			}
		}
	}
	return false
}

// republisher is the hook of one task.
type republisher struct {
	of      *volumesHook
	volumes []*requiredVolume
	said    map[volumes.VolumeKey]string // the last failure; only the goroutine of Started uses it

	hooks.Background
}

// Name implements hooks.Task.
func (*republisher) Name() string { return "volume_tokens" }

// Up implements hooks.Task. The volumes are published before.
func (*republisher) Up(context.Context, *hooks.TaskEnv) error { return nil }

// Down implements hooks.Task.
func (*republisher) Down(context.Context) error { return nil }

// Started implements hooks.Started.
func (r *republisher) Started(ctx context.Context, task hooks.Control) {
	r.Begin(ctx, func(ctx context.Context) { r.watch(ctx, task) })
}

// watch has each volume published again when its tokens are due, until ctx ends.
func (r *republisher) watch(ctx context.Context, task hooks.Control) {
	pauses := make([]backoff.Backoff, len(r.volumes))
	for i := range pauses {
		pauses[i] = r.of.newBackoff()
	}

	for ctx.Err() == nil {
		next := maxLook
		for i, w := range r.volumes {
			next = min(next, r.look(ctx, task, w, &pauses[i]))
		}
		backoff.Sleep(ctx, next)
	}
}

// look publishes a volume again if its driver wants that and its tokens are due. It returns the time until
// the next look. A failure changes nothing of the volume.
func (r *republisher) look(
	ctx context.Context, task hooks.Control, w *requiredVolume, pause *backoff.Backoff,
) time.Duration {
	h := r.of
	plugin, err := h.Volumes.PluginOf(w.VolumeKey, h.alloc.ID)
	if err != nil || plugin == nil || !plugin.RequiresRepublish {
		return maxLook
	}

	renewal := h.Renewals.Of(h.alloc.ID, w.VolumeKey.String())
	return renewal.Run(func() error {
		err := h.republish(ctx, w)
		if err == nil {
			pause.Reset()
			delete(r.said, w.VolumeKey)
			return nil
		}
		if ctx.Err() == nil {
			r.say(task, w, err)
		}
		return err
	}, pause.After)
}

// say records an event about a failure, unless it was the last one.
func (r *republisher) say(task hooks.Control, w *requiredVolume, err error) {
	text := err.Error()
	if r.said[w.VolumeKey] == text {
		return
	}
	r.said[w.VolumeKey] = text
	r.of.logger.Warn("failed to publish a volume again with other tokens, retrying",
		"volume_id", w.ID, "namespace", w.Namespace, "error", err)
	task.Emit(&structs.TaskEvent{
		Type: structs.TaskEventHookMessage,
		Message: fmt.Sprintf("volume %s: its driver has not got other tokens, the node tries again: %s",
			w.VolumeKey, text),
	})
}

// republish publishes a volume again, with the arguments that the servers give now.
func (h *volumesHook) republish(ctx context.Context, w *requiredVolume) error {
	asked := h.Now()
	resp, err := callOnce(ctx, h, structs.CSIClaimGet, h.claimRequest(w))
	if err != nil {
		return fmt.Errorf("reading its claim: %w", err)
	}
	if resp.Claim == nil || !resp.Ready || resp.Volume == nil {
		return structs.Unavailablef("its claim is not granted: %s", resp.Blocked)
	}
	err = h.Volumes.Republish(ctx, h.useOf(w, resp, asked))
	if err == nil && h.Healer != nil {
		h.Healer.Health.Renew(w.Usage(), h.alloc.ID) // the plugin may have mounted it anew
	}
	return err
}
