package plugincatalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"berth/client/store"
	"berth/internal/backoff"
)

// restart paces the starts of a process that ends.
var restart = backoff.Backoff{Min: 5 * time.Second, Max: 2 * time.Minute}

// processes are the records of running plugins, by name.
var processes = store.NewTable[Reattach]("plugin_processes")

// Supervisor keeps one process of a plugin running.
type Supervisor struct {
	Catalog *Catalog
	Records *store.DB
	Name    string
	// Outlives is for a plugin whose process runs on when the agent stops, and serves the next agent. Any other
	// process ends with the agent.
	Outlives bool
	// Session uses a process until that ends or ctx does. It returns why it ended.
	Session func(ctx context.Context, p *Process) error
	// Failed hears why there is no process now. It must not block.
	Failed func(err error)
}

// Run starts a process, or takes up that of an earlier agent, and starts another one when it ends. It returns
// when ctx has ended.
func (s *Supervisor) Run(ctx context.Context) {
	logger := s.Catalog.logger.Named(s.Name)
	pace := restart
	for {
		began := time.Now()
		err := s.session(ctx)
		if ctx.Err() != nil {
			return
		}
		s.Failed(err)
		if time.Since(began) > restart.Max {
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
	go func() {
		select {
		case <-p.Exited():
			cancel()
		case <-used.Done():
		}
	}()
	err = s.Session(used, p)
	if ctx.Err() != nil && s.Outlives {
		p.Detach()
		return ctx.Err()
	}
	p.Kill() // it has ended, or is not used any more
	if err == nil || used.Err() != nil {
		err = errors.New("the process has ended")
	}
	return errors.Join(err, processes.Delete(s.Records, s.Name))
}

// process returns the process of an earlier agent, or a new one.
func (s *Supervisor) process(ctx context.Context) (*Process, error) {
	record, err := processes.Get(s.Records, s.Name)
	if err != nil {
		return nil, fmt.Errorf("the record of the running process: %w", err)
	}
	if record != nil && s.Outlives {
		p, err := s.Catalog.Reattach(s.Name, *record)
		if p != nil {
			return p, nil
		}
		if err != nil {
			s.Catalog.logger.Warn("failed to reattach a plugin", "plugin", s.Name, "error", err)
		}
	}
	if record != nil {
		err := kill(ctx, *record)
		if err != nil {
			return nil, err
		}
	}
	p, err := s.Catalog.Start(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	reattach := p.Reattach()
	err = processes.Put(s.Records, s.Name, &reattach)
	if err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// KillOthers kills the processes of earlier agents whose plugins are not wanted any more.
func KillOthers(ctx context.Context, records *store.DB, wanted func(name string) bool) error {
	all, err := processes.All(records, "")
	faults := []error{err}
	for _, r := range all {
		if wanted(r.Key) {
			continue
		}
		err := kill(ctx, *r.Value)
		if err == nil {
			err = processes.Delete(records, r.Key)
		}
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}
