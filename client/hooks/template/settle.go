package template

import (
	"context"
	"strings"
	"time"

	"berth/structs"
)

// unrest is the time in which answers change that a template has read.
type unrest struct {
	digests     string // of the last look
	first, last time.Time
}

// settled reports whether a template is to be rendered again because of an answer that has changed: once the
// answers stay the same for the minimum of its wait, or after the maximum. A text that still waits for
// answers does not wait any longer. Otherwise, h.again becomes the time of the next look at the latest.
func (h *templates) settled(t *structs.Template, r *reads) bool {
	digests, changed, complete := h.answersNow(r)
	if !changed {
		delete(h.unrests, t.DestPath)
		return false
	}

	now := time.Now()
	u := h.unrests[t.DestPath]
	if u == nil {
		u = &unrest{first: now}
		h.unrests[t.DestPath] = u
	}

	if u.digests != digests {
		u.digests = digests
		u.last = now
	}

	least, most := t.WaitBounds()
	due := u.last.Add(least)
	if latest := u.first.Add(most); latest.Before(due) {
		due = latest
	}

	if complete && now.Before(due) {
		h.again = min(h.again, due.Sub(now))
		return false
	}

	delete(h.unrests, t.DestPath)
	return true
}

// answersNow compares the answers that a text has read with the current ones. An answer that is not there, as
// after a restart of the agent, counts as the same.
func (h *templates) answersNow(r *reads) (digests string, changed, complete bool) {
	var all strings.Builder
	complete = true
	for _, a := range r.Answers {
		now, err := h.values.lookups.Read(a.Query)
		if err != nil || now.Digest == "" {
			continue
		}
		changed = changed || now.Digest != a.Digest
		complete = complete && a.Digest != ""
		all.WriteString(now.Digest)
	}
	return all.String(), changed, complete
}

// pause returns after a time, or once an answer has changed. It reports false if ctx ended first.
func (h *templates) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.lookups.Woken():
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
