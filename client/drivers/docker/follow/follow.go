// Package follow copies the output of a container from the daemon to the standard output and error of its own
// process, a helper beside the container that outlives the agent. The helper follows the daemon's log of the
// container. When the daemon goes away, it waits for the next one and continues at the message after the last
// one it wrote: the log has a time in nanoseconds for each message.
//
// The helper writes its position to a file every second. If it is killed, the next helper begins at that
// position, and writes the messages after it again. The daemon keeps a bounded part of the output: a
// container that writes more than that while no helper runs loses the rest.
package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/drivers/docker/engine"
	"berth/internal/backoff"
	"berth/structs"
)

// Arg selects Main among the duties of the agent's executable. Its arguments follow: the daemon's endpoint,
// the container's ID, the file of the position.
const Arg = "docker-output"

// Main copies until the container has ended and its output is read, or until SIGTERM. It returns the exit
// code.
func Main(args []string) int {
	if len(args) != 3 {
		fmt.Fprintln(os.Stderr, "executor: expected an endpoint, a container and a file")
		return 2
	}

	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	err := Copy(ctx, Source{Endpoint: args[0], Container: args[1], File: args[2]}, os.Stdout, os.Stderr)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "executor:", err)
		return 1
	}

	return 0
}

// Source is the output of a container.
type Source struct {
	Endpoint  string
	Container string
	File      string // has the position: what has been copied
}

// position is the last message that was written, by its time, and the number of messages of that time.
type position struct {
	Time time.Time
	Seen int
}

// follower is a Copy in progress.
type follower struct {
	Source
	engine *engine.Engine
	to     [2]io.Writer // standard output and error
	// dropsEnds says that the daemon's log has no end of a line that it keeps in parts: a fault of all log
	// drivers but json-file, which keep their copy in the same form.
	dropsEnds bool

	// It guards at: the copy moves it while the saver reads it. Only save uses saved, one call after the
	// other.
	mu    sync.Mutex
	at    position
	saved position
}

// Copy copies the output of a container until it has ended, or with ctx's error.
func Copy(ctx context.Context, from Source, stdout, stderr io.Writer) error {
	f := &follower{
		Source: from,
		engine: engine.New(from.Endpoint),
		to:     [2]io.Writer{stdout, stderr},
		at:     readPosition(from.File),
	}

	f.saved = f.at
	saving, stop := context.WithCancel(ctx)
	var saver sync.WaitGroup
	saver.Go(func() {
		for backoff.Sleep(saving, saveInterval) {
			f.save()
		}
	})

	err := f.copyAll(ctx)
	stop()
	saver.Wait()
	f.save()
	return err
}

const saveInterval = time.Second

// reconnect paces the attempts to reach the daemon.
var reconnect = backoff.Backoff{Min: 100 * time.Millisecond, Max: time.Second}

// copyAll copies streams until the container has ended.
func (f *follower) copyAll(ctx context.Context) error {
	pause := reconnect
	for {
		before := f.position()
		done, err := f.copyStream(ctx)
		if done || errors.Is(err, errWrite) {
			return err
		}
		// A stream that has brought something is no failed attempt.
		if f.position() != before {
			pause.Reset()
		}
		if !pause.Wait(ctx) {
			return ctx.Err()
		}
	}
}

// copyStream copies one stream of the daemon. It is done if the container is gone, or had ended before the
// stream began.
func (f *follower) copyStream(ctx context.Context) (done bool, err error) {
	c, err := f.engine.Inspect(ctx, f.Container)
	if structs.IsKind(err, structs.KindNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}

	running := c.State.Running || c.State.Paused
	f.dropsEnds = c.HostConfig.LogConfig.Type != "json-file"
	stream, err := f.engine.Logs(ctx, f.Container, f.position().Time, running)
	if err != nil {
		return false, err
	}
	defer stream.Close()

	if c.Config.Tty {
		err = f.readRaw(stream, !running)
	} else {
		err = f.readFrames(stream)
	}

	return err == nil && !running, err
}

// errWrite is the reason for a Copy that nobody reads.
var errWrite = errors.New("the output cannot be written")

func (f *follower) position() position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

// skipper drops the messages of a stream that were written before.
type skipper struct {
	from position
	seen int
}

// isOld reports whether a message of that time was written.
func (s *skipper) isOld(at time.Time) bool {
	if at.Before(s.from.Time) {
		return true
	}
	if at.Equal(s.from.Time) && s.seen < s.from.Seen {
		s.seen++
		return true
	}
	return false
}

// write writes a message and moves the position.
func (f *follower) write(to io.Writer, at time.Time, text []byte) error {
	_, err := to.Write(text)
	if err != nil {
		return fmt.Errorf("%w: %w", errWrite, err)
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	if !at.Equal(f.at.Time) {
		f.at = position{Time: at}
	}

	f.at.Seen++
	return nil
}

// save writes the position if it has changed. An error costs repeated output only if the helper is killed.
func (f *follower) save() {
	f.mu.Lock()
	at := f.at
	f.mu.Unlock()
	if at == f.saved {
		return
	}

	text, err := json.Marshal(at)
	// A kill leaves the former position, or the new one, and never a part.
	if err == nil {
		err = os.WriteFile(f.File+unfinished, text, 0o600)
	}

	if err == nil {
		err = os.Rename(f.File+unfinished, f.File)
	}

	if err == nil {
		f.saved = at
	}
}

// unfinished is the suffix of a file of a position that is being written.
const unfinished = ".tmp"

// Forget removes the file of a position, also what a helper has left that was killed while it wrote it.
func Forget(file string) error {
	var errs []error
	for _, path := range []string{file, file + unfinished} {
		err := os.Remove(path)
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// readPosition reads the file of a position. Without one the position is the beginning.
func readPosition(path string) position {
	var at position
	text, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(text, &at) != nil {
		return position{}
	}
	return at
}
