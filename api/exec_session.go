package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"

	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/nodecalls"
)

const (
	// maxMessage bounds a message on the websocket of a command.
	maxMessage = 1 << 20
	// maxSilence is the time after which a side that sends nothing is gone. Both send something at least every
	// heartbeatEvery.
	maxSilence = 6 * heartbeatEvery
	// maxReason bounds the reason with which a websocket is closed. With an ellipsis it fits the protocol.
	maxReason = 120
	// closeCodes is added to the HTTP status of an error for the code with which a websocket is closed: the
	// codes from 4000 on are free for applications.
	closeCodes = 4000
)

// errClientGone ends the command of a user that has gone.
var errClientGone = structs.Unavailablef("the user of the command has gone")

// execSession is the agent's side of a websocket. Its goroutines are the one that reads input, which ends
// with the websocket, and the one for heartbeats, which ends with the command.
type execSession struct {
	ws      *websocket.Conn
	reading sync.WaitGroup
}

// serve runs the command, and closes the websocket with the result.
func (s *execSession) serve(ctx context.Context, run ExecFunc, x *Exec) error {
	code, err := s.run(ctx, run, x)
	if err == nil {
		err = s.finish(x.TTY, code)
	}
	// This ends the read of readInput, for which the next line waits.
	s.closeWith(err)
	s.reading.Wait()
	return err
}

// run runs the command until its end, or until the user has gone. Input that arrives later is dropped, until
// the websocket is closed.
func (s *execSession) run(ctx context.Context, run ExecFunc, x *Exec) (code int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stdin, feed := io.Pipe()
	defer stdin.Close()
	// The capacity of 1 lets the reader replace a size that nobody has taken.
	sizes := make(chan nodecalls.TerminalSize, 1)
	x.Stdin = stdin
	stdout := func(d *nodecalls.ExecData) nodecalls.ExecOutput { return nodecalls.ExecOutput{Stdout: d} }
	stderr := func(d *nodecalls.ExecData) nodecalls.ExecOutput { return nodecalls.ExecOutput{Stderr: d} }
	x.Stdout = &execWriter{ctx, s.ws, stdout}
	x.Stderr = &execWriter{ctx, s.ws, stderr}
	x.Resize = sizes
	s.reading.Go(func() {
		err := s.readInput(feed, sizes)
		feed.CloseWithError(err)
		cancel(errClientGone)
	})

	var beating sync.WaitGroup
	beating.Go(func() {
		// A read may wait until the command takes its input.
		if heartbeat(ctx, s.ws, nodecalls.ExecOutput{}) != nil {
			cancel(errClientGone)
		}
	})
	// The defers run from the last one: cancel ends the heartbeats, and then Wait returns.
	defer beating.Wait()
	defer cancel(nil)
	code, err = run(ctx, x)
	// The cause says more than the error of a command that was killed.
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}

	return code, err
}

// readInput passes input on until the websocket ends. The context of a read must not end with the command:
// that would close the websocket before its last messages.
func (s *execSession) readInput(stdin *io.PipeWriter, sizes chan nodecalls.TerminalSize) error {
	for {
		var in nodecalls.ExecInput
		err := readMessage(context.Background(), s.ws, &in)
		if err != nil {
			return err
		}

		// A terminal has one size, and a full channel would stop the input.
		if in.Size != nil {
			select { // only the last size counts
			case <-sizes:
			default:
			}

			sizes <- *in.Size
		}

		if in.Stdin == nil {
			continue
		}

		if len(in.Stdin.Data) > 0 { // an empty write would wait for a reader, too
			_, _ = stdin.Write(in.Stdin.Data) // fails once the command does not read any more
		}

		if in.Stdin.Close {
			_ = stdin.Close()
		}
	}
}

// finish sends the end of both outputs and the exit code.
func (s *execSession) finish(tty bool, code int) error {
	ends := []nodecalls.ExecOutput{{Stdout: &nodecalls.ExecData{Close: true}}}
	if !tty {
		ends = append(ends, nodecalls.ExecOutput{Stderr: &nodecalls.ExecData{Close: true}})
	}
	ends = append(ends, nodecalls.ExecOutput{Exited: true, Result: &nodecalls.ExecResult{ExitCode: code}})
	for _, end := range ends {
		if err := writeWithin(maxSilence, s.ws, end); err != nil {
			return err
		}
	}
	return nil
}

// closeWith closes the websocket. An error goes along: its status is in the code, its text is the reason.
func (s *execSession) closeWith(err error) {
	code, reason := websocket.StatusNormalClosure, ""
	switch {
	case errors.Is(err, context.Canceled):
		code, reason = websocket.StatusGoingAway, "the agent stops"
	case err != nil:
		code = websocket.StatusCode(closeCodes + structs.KindOf(err).HTTPStatus())
		reason = structs.Cut(err.Error(), maxReason)
	}

	_ = s.ws.Close(code, reason) // waits a moment for the other side
}

// heartbeat sends a message without content at intervals until ctx ends, or until that fails.
func heartbeat(ctx context.Context, ws *websocket.Conn, empty any) error {
	for backoff.Sleep(ctx, heartbeatEvery) {
		err := writeWithin(maxSilence, ws, empty)
		if err != nil {
			return err
		}
	}
	return nil
}

// writeWithin sends a message that the end of a command does not cut short: that would close the websocket.
func writeWithin(limit time.Duration, ws *websocket.Conn, message any) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return writeMessage(ctx, ws, message)
}

// execWriter sends an output of the command. Each output has one. The websocket takes one message at a time.
type execWriter struct {
	ctx  context.Context
	ws   *websocket.Conn
	wrap func(*nodecalls.ExecData) nodecalls.ExecOutput
}

func (w *execWriter) Write(p []byte) (int, error) {
	for sent := 0; sent < len(p); {
		if err := w.ctx.Err(); err != nil { // such a message would close the websocket without a reason
			return sent, err
		}
		// A frame bounds the memory of both sides for one message.
		part := p[sent:min(sent+FrameSize, len(p))]
		err := writeMessage(w.ctx, w.ws, w.wrap(&nodecalls.ExecData{Data: part}))
		if err != nil {
			return sent, err
		}
		sent += len(part)
	}
	return len(p), nil
}

func writeMessage(ctx context.Context, ws *websocket.Conn, message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return ws.Write(ctx, websocket.MessageText, text)
}

// readMessage reads a message. A side that is silent for maxSilence is gone.
func readMessage(ctx context.Context, ws *websocket.Conn, into any) error {
	limited, cancel := context.WithTimeout(ctx, maxSilence)
	defer cancel()
	_, text, err := ws.Read(limited)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		return structs.Timeoutf("the other side of the websocket has sent nothing for %s", maxSilence)
	case err != nil:
		return err
	}
	err = json.Unmarshal(text, into)
	if err != nil {
		return structs.Invalidf("a message on the websocket is invalid: %w", err)
	}
	return nil
}
