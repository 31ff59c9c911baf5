package template

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"berth/client/hooks"
	"berth/internal/backoff"
	"berth/structs"
)

// Started implements hook.Started: it watches the values that can change.
func (h *templates) Started(ctx context.Context, task hooks.Control) {
	h.Begin(ctx, func(ctx context.Context) { h.watch(ctx, task) })
}

// watch renders templates again whose values have changed, until ctx ends or no value can change. It looks at
// least once in PollInterval.
func (h *templates) watch(ctx context.Context, task hooks.Control) {
	for {
		changed := h.renderChanged(ctx, task)
		// The mark follows the act: an agent that is killed between them leaves the act to the next one.
		if h.act(ctx, task, changed) && h.unsaved {
			err := h.save()
			if err != nil {
				h.logger.Error("failed to record the task's templates", "error", err)
			}
			h.unsaved = false
		}
		if !h.mayChange() || !h.pause(ctx, h.again) {
			return
		}
	}
}

// mayChange reports whether any text may become another one. A template without a record is rendered again.
func (h *templates) mayChange() bool {
	return slices.ContainsFunc(h.task.Templates, func(t *structs.Template) bool {
		r := h.rec.Rendered[t.DestPath]
		return r == nil || r.Reads.changes()
	})
}

// renderChanged renders the templates whose values have changed, and returns those with another text.
func (h *templates) renderChanged(ctx context.Context, task hooks.Control) (changed []*structs.Template) {
	h.again = PollInterval
	for _, t := range h.task.Templates {
		r := h.rec.Rendered[t.DestPath]
		// A value of the node counts at once, an answer when it is settled.
		if r != nil && !r.Reads.changed(t, h.values) && !h.settled(t, r.Reads) {
			continue
		}
		other, err := h.renderAgain(ctx, t)
		if err != nil && ctx.Err() == nil {
			h.say(task.Emit, t, "keeping the last text: "+err.Error())
		}
		if other {
			changed = append(changed, t)
		}
	}
	return changed
}

// renderAgain renders a template of a running process, and reports whether its text is another one. After an
// error, the file keeps its text until a value changes again.
func (h *templates) renderAgain(ctx context.Context, t *structs.Template) (other bool, err error) {
	last := h.rec.Rendered[t.DestPath]
	text, read, err := h.render(ctx, t)

	// A rendering that was cut off has asked only some of its questions, so the former ones stay followed.
	if ctx.Err() == nil {
		defer h.keep()
		h.asked[t.DestPath] = read.Answers
	}

	switch {
	case ctx.Err() != nil:
		return false, nil
	case err != nil:
		// The file keeps its text. The new reads tell when to try again.
		if last != nil {
			h.rec.Rendered[t.DestPath] = &rendered{last.Text, read}
		}
		return false, err

	case last == nil: // the record is lost, and the file has the last text
		found, _ := h.values.dirs.ReadFile(h.expand(t.DestPath), structs.MaxTemplateBytes)
		last = &rendered{Text: digest(found)}
	}

	now := &rendered{digest(text), read}
	if now.Text != last.Text {
		err = h.write(t, text)
		if err != nil {
			return false, err
		}
	}

	// The message about an earlier failure may come again.
	delete(h.said, t.DestPath)
	h.rec.Rendered[t.DestPath] = now
	h.unsaved = true
	return now.Text != last.Text, nil
}

// act carries out the changes, after the longest of their random delays. One restart replaces all else. act
// reports false if ctx ended before.
func (h *templates) act(ctx context.Context, task hooks.Control, changed []*structs.Template) bool {
	var delay time.Duration
	for _, t := range changed {
		if t.ChangeMode != structs.TemplateNoop && t.Splay != nil && *t.Splay > 0 {
			delay = max(delay, rand.N(*t.Splay))
		}
	}

	if !backoff.Sleep(ctx, delay) {
		return false
	}

	for _, t := range changed {
		if t.ChangeMode == structs.TemplateRestart {
			task.RestartNow(fmt.Sprintf("the template %s has another text",
				structs.Cut(t.DestPath, structs.MaxQuoted)))
			return true
		}
	}

	var sent []string
	for _, t := range changed {
		// A process reads all of its files again at a signal, so one is enough for several templates.
		switch {
		case t.ChangeMode == structs.TemplateScript:
			h.runScript(ctx, task, t)
		case t.ChangeMode == structs.TemplateSignal && !slices.Contains(sent, t.ChangeSignal):
			sent = append(sent, t.ChangeSignal)
			h.signal(ctx, task, t)
		}
	}

	return ctx.Err() == nil
}

// signal sends the signal of a template to the process. An event tells a failure.
func (h *templates) signal(ctx context.Context, task hooks.Control, t *structs.Template) {
	task.Emit(&structs.TaskEvent{
		Type: structs.TaskEventSignaling,
		Message: fmt.Sprintf("Task being sent signal %s: the template %s has another text",
			t.ChangeSignal, structs.Cut(t.DestPath, structs.MaxQuoted)),
	})
	err := task.Signal(ctx, t.ChangeSignal)
	if err != nil {
		delete(h.said, t.DestPath) // each signal gets its event
		h.say(task.Emit, t, fmt.Sprintf("failed to send %s: %v", t.ChangeSignal, err))
	}
}

// runScript runs the command of a template in the task.
func (h *templates) runScript(ctx context.Context, task hooks.Control, t *structs.Template) {
	script := t.ChangeScript
	command := []string{h.expand(script.Command)}
	for _, arg := range script.Args {
		command = append(command, h.expand(arg))
	}

	err := hooks.RunCommand(ctx, task, command, script.Timeout)
	if ctx.Err() != nil { // the process has ended, or the agent stops
		return
	}

	delete(h.said, t.DestPath) // each run gets its event
	name := structs.Cut(command[0], structs.MaxText)
	if err == nil {
		h.say(task.Emit, t, fmt.Sprintf("another text: ran %s", name))
		return
	}

	message := fmt.Sprintf("the script %s failed: %v", name, err)
	h.say(task.Emit, t, message)
	if script.FailOnError {
		task.Fail(structs.TaskEventHookFailed, message)
	}
}
