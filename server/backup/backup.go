// Package backup saves archives of the state of the servers on a schedule, on the leader: in a directory, of
// which the newest archives stay, or by a program that reads each archive from its standard input.
package backup

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"filippo.io/age"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"

	"berth/internal/backoff"
	"berth/state/clustertime"
)

// Agent saves the archives.
type Agent struct {
	settings Settings
	save     func(ctx context.Context, w io.Writer) error
	logger   hclog.Logger
	writing  sync.Mutex // held while an archive is written
	status   status

	// put stores an archive: store or pipe.
	put func(ctx context.Context, name string, archive io.Reader) error
}

// New returns the agent of a server. save writes an archive of the present state. An error of w ends it.
func New(settings Settings, save func(context.Context, io.Writer) error, logger hclog.Logger) *Agent {
	a := &Agent{
		settings: settings,
		save:     save,
		logger:   logger.Named("snapshot_agent"),
	}
	a.put = a.store
	if settings.Directory == "" {
		a.put = a.pipe
	}
	return a
}

var (
	errLate  = errors.New("it took longer than server.snapshot_agent.timeout")
	errHangs = errors.New("the write of the former archive hangs still")
)

// pause is the time between attempts to save an archive.
var pause = backoff.Backoff{Min: 10 * time.Second, Max: 10 * time.Minute}

// longestSleep bounds a wait for the next archive: the wall clock may be stepped meanwhile.
const longestSleep = time.Minute

// Run saves an archive at each multiple of Every, such as each full hour, until ctx ends. If the directory
// has no archive of the present period, Run saves one at once: the former leader may have been away at its
// time.
func (a *Agent) Run(ctx context.Context) {
	if a.settings.Every == 0 {
		return
	}

	period := a.settings.Every
	newest := a.newest()
	done := newest.Truncate(period)
	if a.settings.Directory == "" {
		done = time.Now().Truncate(period) // the program may have an archive of the present period
	}
	a.status.begin(done, newest)
	defer a.status.end()
	var reports sync.WaitGroup
	defer reports.Wait()
	reports.Go(func() { a.report(ctx) })

	again := pause
	for ctx.Err() == nil {
		now := time.Now()
		if !isDue(done, now, period) {
			backoff.Sleep(ctx, min(time.Until(done.Add(period)), longestSleep))
			continue
		}

		err := a.saveOne(ctx, now)
		if err != nil {
			if ctx.Err() == nil {
				a.logger.Error("failed to save a snapshot, retrying", "error", err)
				metrics.IncrCounter([]string{"snapshot_agent", "failed"}, 1)
				a.status.failed(err)
			}
			again.Wait(ctx)
			continue
		}
		again.Reset()
		done = now.Truncate(period)
		a.status.saved(now)
		metrics.IncrCounter([]string{"snapshot_agent", "saved"}, 1)
	}
}

// isDue reports whether an archive is due after one of the period that began at done.
func isDue(done, now time.Time, period time.Duration) bool {
	return now.Truncate(period).After(done) || isFuture(done, now)
}

// isFuture reports whether the time of an archive is in the future: the clock was ahead when it was made.
func isFuture(at, now time.Time) bool { return at.Sub(now) > clustertime.Tolerance }

// newest returns the time of the newest archive that is known, zero for none: the server does not know the
// archives of a program.
func (a *Agent) newest() time.Time {
	if a.settings.Directory == "" {
		return time.Time{}
	}
	names, err := archives(a.settings.Directory)
	if err != nil || len(names) == 0 {
		return time.Time{} // saveOne tells the error
	}
	at, _ := madeAt(names[len(names)-1])
	return at
}

func (a *Agent) saveOne(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.settings.Timeout, errLate)
	defer cancel()

	// The file is read each time, so that a change of it needs no restart.
	to, err := a.settings.recipients()
	if err != nil {
		return err
	}

	name := nameOf(now, len(to) > 0)
	err = a.transfer(ctx, name, to)
	if err != nil {
		return err
	}

	a.logger.Info("saved a snapshot", "name", name)
	return nil
}

// transfer saves an archive by way of a pipe. A directory that hangs, as one of a lost file server does,
// stops neither the state nor the leader: the goroutine that writes there is left alone.
func (a *Agent) transfer(ctx context.Context, name string, to []age.Recipient) error {
	if !a.writing.TryLock() {
		return errHangs
	}

	from, into := io.Pipe()
	saved := make(chan error, 1)
	go func() {
		err := a.archive(ctx, into, to)
		_ = into.CloseWithError(err)
		saved <- err
	}()

	stored := make(chan error, 1)
	go func() {
		defer a.writing.Unlock()
		err := a.put(ctx, name, from)
		_ = from.CloseWithError(err)
		stored <- err
	}()

	var err error
	select {
	case err = <-stored:
	case <-ctx.Done():
		err = context.Cause(ctx)
		_ = from.CloseWithError(err)
		a.awaitEnd(stored)
	}
	if err == nil {
		err = <-saved
	}
	return causeOf(ctx, err)
}

// causeOf returns why a context has ended in place of an error that says only that it has.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}

// hangAfter is the time after the end of an archive in which its write has to end.
const hangAfter = 5 * time.Second

// awaitEnd waits for the end of a write whose archive has ended, but not for one that hangs.
func (a *Agent) awaitEnd(stored <-chan error) {
	select {
	case <-stored:
	case <-time.After(hangAfter):
		a.logger.Warn("the write of a snapshot hangs")
	}
}
