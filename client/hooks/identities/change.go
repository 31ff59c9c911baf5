package identities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"berth/client/hooks"
	"berth/internal/idtoken"
	"berth/structs"
)

// Started implements hooks.Started: it follows the renewals.
func (h *taskHook) Started(ctx context.Context, task hooks.Control) {
	h.Begin(ctx, func(ctx context.Context) { h.watch(ctx, task) })
}

// watch shows each new token to the process until ctx ends.
func (h *taskHook) watch(ctx context.Context, task hooks.Control) {
	for {
		tokens, changed := h.tokens()
		again := h.apply(ctx, task, tokens)
		timer := time.NewTimer(again)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-changed:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// tokens returns the newest tokens by the names of their identities, all of one moment: identities that were
// renewed together reach the process with one signal. changed is closed at the next renewal.
func (h *taskHook) tokens() (all map[string]hooks.Token, changed <-chan struct{}) {
	for {
		changed = h.env.TokensChanged()
		all = map[string]hooks.Token{}
		for _, i := range h.shown {
			token, ok := h.token(i)
			if ok {
				all[i.Name] = token
			}
		}
		if changed == h.env.TokensChanged() {
			return all, changed
		}
	}
}

// news is a token that the process does not know.
type news struct {
	*structs.WorkloadIdentity
	token hooks.Token
}

// apply writes new tokens into their files and acts on the process. It returns the time until it may have to
// do more, also without another token.
func (h *taskHook) apply(ctx context.Context, task hooks.Control,
	tokens map[string]hooks.Token) (again time.Duration) {
	again = maxSleep
	var all []news
	for _, i := range h.shown {
		token, ok := tokens[i.Name]
		if !ok {
			continue
		}

		err := h.write(i, token)
		if err != nil {
			h.say(task.Emit, i, "keeping the last token: "+err.Error())
			again = min(again, retryWrite)
			continue
		}

		wait := h.untilAct(i, token)
		switch {
		case wait > 0:
			again = min(again, wait)
		case wait == 0:
			all = append(all, news{i, token})
		}
	}

	if len(all) > 0 {
		h.act(ctx, task, all)
	}

	return again
}

// untilAct returns the time until the process is to learn of a token, below 0 if it knows the token. A
// process of an earlier agent has a token of which only the time of its renewal is known.
func (h *taskHook) untilAct(i *structs.WorkloadIdentity, token hooks.Token) time.Duration {
	given, known := h.given[i.Name]
	signer := h.rec.Keys[i.Name]
	switch {
	case structs.IsEndlessIdentity(i) && signer != "" && signer == idtoken.KeyID(string(token.JWT)):
		return -1 // the one that it knows is as good
	case known && given == token.JWT:
		return -1
	case known:
		return 0
	}
	return max(0, time.Until(h.rec.Renew[i.Name]))
}

// act carries out the change modes of identities with another token. One restart replaces all else. The mark
// follows the act: an agent that is killed between them leaves the act to the next one.
func (h *taskHook) act(ctx context.Context, task hooks.Control, all []news) {
	restarts := slices.IndexFunc(all, func(n news) bool { return n.ChangeMode == structs.TemplateRestart })
	if restarts >= 0 {
		task.RestartNow(fmt.Sprintf("the identity %s has another token", all[restarts].Name))
	} else {
		h.signal(ctx, task, all)
	}

	if ctx.Err() != nil {
		return
	}

	for _, n := range all {
		h.knows(n.WorkloadIdentity, n.token)
	}

	err := h.save()
	if err != nil {
		h.logger.Error("failed to record the renewals of identities", "error", err)
	}
}

// signal sends each signal of the identities once. An event tells a failure.
func (h *taskHook) signal(ctx context.Context, task hooks.Control, all []news) {
	var sent []string
	for _, n := range all {
		if n.ChangeMode != structs.TemplateSignal || slices.Contains(sent, n.ChangeSignal) {
			continue
		}

		sent = append(sent, n.ChangeSignal)
		task.Emit(&structs.TaskEvent{
			Type: structs.TaskEventSignaling,
			Message: fmt.Sprintf("Task being sent signal %s: the identity %s has another token",
				n.ChangeSignal, n.Name),
		})
		err := task.Signal(ctx, n.ChangeSignal)
		if err != nil && ctx.Err() == nil {
			h.say(task.Emit, n.WorkloadIdentity, fmt.Sprintf("failed to send %s: %v", n.ChangeSignal, err))
		}
	}
}

// say records an event about an identity, unless it was the last one.
func (h *taskHook) say(emit func(*structs.TaskEvent), i *structs.WorkloadIdentity, message string) {
	if h.said[i.Name] == message {
		return
	}
	h.said[i.Name] = message
	emit(&structs.TaskEvent{
		Type:    structs.TaskEventHookMessage,
		Message: fmt.Sprintf("identity %s: %s", i.Name, message),
	})
}
