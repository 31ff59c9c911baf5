package catalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"berth/client/store"
	"berth/internal/backoff"
)

// defaultPace is the Supervisor's.
var defaultPace = backoff.Backoff{
	Min: 5 * time.Second,
	Max: 2 * time.Minute,
}

// processes are the records of running plugins, by name.
var processes = store.NewTable[Reattach]("plugin_processes")

// Supervisor keeps one process of a plugin running.
type Supervisor struct {
	Catalog *Catalog
	Records *store.DB
	Name    string
	// Outlives is for a plugin whose process runs on when the agent stops, and serves the next agent. Any
	// other process ends with the agent.
	Outlives bool
	// Pace is the pause before the next start of a process that ends, by default from 5 s to 2 min.
	Pace backoff.Backoff
	// Session uses a process until that ends or ctx does. It returns why it ended.
	Session func(ctx context.Context, p *Process) error
	// Failed receives the reason why there is no process now. It must not block.
	Failed func(err error)
}

// Run starts a process, or takes up an earlier agent's, and starts another one when it ends. It returns when
// ctx has ended.
func (s *Supervisor) Run(ctx context.Context) {
	logger := s.Catalog.logger.Named(s.Name)
	pace := s.Pace
	if pace.Max == 0 {
		pace = defaultPace
	}

	for {
		began := time.Now()
		err := s.session(ctx)
		if ctx.Err() != nil {
			return
		}

		s.Failed(err)
		// After a long run the next start is no repetition of a failed one.
		if time.Since(began) > pace.Max {
			pace.Reset()
		}

		wait := pace.After(err)
		logger.Warn("plugin has ended", "again_in", wait, "error", err)
		if !backoff.Sleep(ctx, wait) {
			return
		}
	}
}

// session runs one process from its start or reattachment to its end.
func (s *Supervisor) session(ctx context.Context) error {
	p, err := s.process(ctx)
	if err != nil {
		return err
	}

	used, cancel := context.WithCancel(ctx)
	defer cancel()
	var watch sync.WaitGroup
	// The streams of a session have no bound. They end with the process.
	watch.Go(func() {
		select {
		case <-p.Exited():
			cancel()
		case <-used.Done():
		}
	})

	err = s.Session(used, p)
	cancel()
	watch.Wait()
	if ctx.Err() != nil && s.Outlives {
		p.Detach()
		return ctx.Err()
	}

	ended := isClosed(p.Exited())
	// The end of the process says more than the failure of its last call.
	if ended {
		err = p.attached.explain(fmt.Errorf("the process has ended: %s", p.Result()))
	}

	p.Kill()
	// The record goes last: a killed agent leaves no process without one.
	return errors.Join(err, processes.Delete(s.Records, s.Name))
}

// process returns the process of an earlier agent, or a new one.
func (s *Supervisor) process(ctx context.Context) (*Process, error) {
	p, err := s.earlier(ctx)
	if p != nil || err != nil {
		return p, err
	}
	p, err = s.Catalog.Start(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	reattach := p.Reattach()
	// If the agent is killed before this record, the file in the directory of the process names it:
	// KillOthers of the next agent ends it.
	err = processes.Put(s.Records, s.Name, &reattach)
	if err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// earlier returns the process of an earlier agent. If there is none that can be used, it returns nil, and
// kills the recorded one.
func (s *Supervisor) earlier(ctx context.Context) (*Process, error) {
	logger := s.Catalog.logger
	record, err := processes.Get(s.Records, s.Name)
	if err != nil {
		logger.Warn("failed to read which process of a plugin runs, starting another one",
			"plugin", s.Name, "error", err)
		return nil, nil
	}

	if record == nil {
		return nil, nil
	}

	if s.Outlives {
		p, err := s.Catalog.Reattach(ctx, s.Name, *record)
		if p != nil {
			return p, nil // also if ctx has ended: the session detaches it
		}

		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			logger.Warn("failed to reattach a plugin", "plugin", s.Name, "error", err)
		}
	}

	// Two processes of one driver would both act on its tasks. After an error none is started.
	return nil, kill(ctx, *record)
}
