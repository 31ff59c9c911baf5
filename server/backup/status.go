package backup

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/internal/backoff"
	"berth/structs"
	"berth/structs/cluster"
)

// status is what is known of the archives of this leadership.
type status struct {
	mu    sync.Mutex
	leads bool
	// since is when the periods begin after which the next archive is overdue: with the newest archive that is
	// known, or the leadership.
	since   time.Time
	newest  time.Time // zero if no archive is known: there is none, or it is one that a program has made before
	failure string    // of the last attempt, "" if it succeeded or there was none
	warned  bool      // of archives that are overdue
}

// reportEvery is how often the gauges are set: an attempt may hang for long.
const reportEvery = 10 * time.Second

// begin begins a leadership. Both times are zero if there is no archive. The first archive of a new cluster
// is overdue after two periods, too.
func (s *status) begin(since, newest time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since.IsZero() {
		since = time.Now()
	}
	s.leads = true
	s.since = since
	s.newest = newest
	s.failure = ""
	s.warned = false
}

// end ends a leadership. Another server has the figures from here on.
func (s *status) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leads = false
	setGauges(false, false)
}

// saved notes an archive.
func (s *status) saved(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = now
	s.newest = now
	s.failure = ""
	s.warned = false
}

// failed notes a failed attempt.
func (s *status) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = structs.Printable(structs.Cut(err.Error(), maxComplaint))
}

// overdue reports whether two periods have passed without an archive. The caller holds s.mu.
func (s *status) overdue(now time.Time, period time.Duration) bool {
	return now.Sub(s.since) > 2*period
}

// report sets the gauges until ctx ends, and logs once that archives are overdue.
func (a *Agent) report(ctx context.Context) {
	s := &a.status
	for ctx.Err() == nil {
		s.mu.Lock()
		late := s.overdue(time.Now(), a.settings.Every)
		setGauges(s.failure != "", late)
		if late && !s.warned {
			a.logger.Error("the newest snapshot is older than two periods",
				"saved", s.newestText(), "error", s.failure)
			s.warned = true
		}
		s.mu.Unlock()
		backoff.Sleep(ctx, reportEvery)
	}
}

// newestText shows the time of the newest archive that is known. The caller holds s.mu.
func (s *status) newestText() string {
	if s.newest.IsZero() {
		return "none known"
	}
	return s.newest.UTC().Format(time.RFC3339)
}

func setGauges(failing, overdue bool) {
	metrics.SetGauge([]string{"snapshot_agent", "failing"}, number(failing))
	metrics.SetGauge([]string{"snapshot_agent", "overdue"}, number(overdue))
}

func number(is bool) float32 {
	if is {
		return 1
	}
	return 0
}

// Stats describes the archives for operators. Only the leader saves archives.
func (a *Agent) Stats() map[string]string {
	s := &a.status
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case a.settings.Every == 0:
		return shown(cluster.ArchivesOff)
	case !s.leads:
		return shown(cluster.ArchivesIdle)
	}
	state := cluster.ArchivesOK
	if s.failure != "" {
		state = cluster.ArchivesFailing
	}
	if s.overdue(time.Now(), a.settings.Every) {
		state = cluster.ArchivesOverdue
	}
	known := shown(state)
	known["newest"] = s.newestText()
	if s.failure != "" {
		known["error"] = s.failure
	}
	return known
}

func shown(state cluster.ArchiveState) map[string]string {
	return map[string]string{cluster.ArchiveStateKey: string(state)}
}
