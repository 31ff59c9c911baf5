package upkeep

import (
	"context"
	"syscall"

	"berth/client/csi/helper"
	"berth/structs/storage"
)

// Check looks at one mount now and returns its state. One look counts: the caller is about to use the
// mount. A mount that is being asked already, and one of which no process can be asked, keep their states.
func (m *Monitor) Check(ctx context.Context, k storage.UsageKey, allocID string) storage.MountHealth {
	s := m.beginCheck(k, allocID)
	if s == nil {
		return m.State(k, allocID)
	}

	if answer, ok := m.askOne(ctx, s.Path); ok {
		m.takeAtOnce(answer)
	}
	return m.State(k, allocID)
}

// askOne asks one mount in a process of its own. It reports false if there is no answer.
func (m *Monitor) askOne(ctx context.Context, path string) (answer helper.ProbeAnswer, ok bool) {
	q := helper.ProbeQuestion{Paths: []string{path}, Wait: m.cfg.Wait}
	stream, err := helper.Start[helper.ProbeAnswer](m.cfg.Helpers, q, helper.ProbeArg)
	if err != nil {
		m.cfg.Logger.Warn("failed to ask a mount", "path", path, "error", err)
		return answer, false
	}

	select {
	case answer, ok = <-stream.Answers:
	case <-ctx.Done():
	}
	stream.Close()
	go func() { // it ends with the output, which is closed
		for range stream.Answers {
		}
	}()
	return answer, ok
}

// beginCheck returns a copy of the mount to ask, nil if the mount table tells its state, or the mount is
// being asked or unknown.
func (m *Monitor) beginCheck(k storage.UsageKey, allocID string) *monitorState {
	table, err := m.cfg.Table()
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.find(k, allocID)
	if err != nil || s == nil || s.asking {
		return nil
	}
	if found, reason := s.inTable(table); found != storage.MountHealthy {
		m.setOnce(s, found, reason)
		return nil
	}
	own := *s
	return &own
}

func (m *Monitor) takeAtOnce(a helper.ProbeAnswer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.mounts[a.Path]
	if s == nil {
		return
	}
	found, reason := m.stateOf(a)
	m.setOnce(s, found, reason)
}

// setOnce sets a state that one look has shown. The caller holds the lock.
func (m *Monitor) setOnce(s *monitorState, found, reason string) {
	s.suspect = ""
	if found != s.health.State {
		m.set(s, found, reason)
	}
}

// Renew notes that the node has mounted a volume anew for an allocation: its mount, and the staged volume,
// are healthy until a look shows something else.
func (m *Monitor) Renew(k storage.UsageKey, allocID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range []string{"", allocID} {
		s := m.find(k, id)
		if s == nil {
			continue
		}
		s.identity = ""
		s.health.Healing = ""
		m.setOnce(s, storage.MountHealthy, "")
	}
}

// SetHealing notes how far the repair of a mount is, "" if nothing repairs it.
func (m *Monitor) SetHealing(k storage.UsageKey, allocID, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.find(k, allocID); s != nil {
		s.health.Healing = text
	}
}

// Disconnected asks the mount at a path now whether its server is gone: then it never answers again, and
// unmounting it loses nothing. It knows no records. Without an answer it reports false.
func (m *Monitor) Disconnected(ctx context.Context, path string) bool {
	table, err := m.cfg.Table()
	if err != nil || !table.Mounted(path) {
		return false
	}
	a, ok := m.askOne(ctx, path)
	return ok && !a.Hung && syscall.Errno(a.Errno) == syscall.ENOTCONN
}
