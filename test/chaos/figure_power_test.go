package chaos

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"berth/structs"
)

// lossJobs are writers, each with a volume that another node gets when a node is lost.
func lossJobs() (jobs []*job) {
	for _, policy := range []string{structs.LossFence, structs.LossLease} {
		j := &job{name: "dir-" + policy, policy: policy}
		j.mib.Store(16)
		jobs = append(jobs, j)
	}
	return jobs
}

// The aims of a loss of power with the default heartbeats: ttl, grace and 10 s, and more if the next leader
// does not know when the leases of the nodes began.
const (
	lossAim       = 30 * time.Second
	lossLeaderAim = 50 * time.Second
)

// measurePowerLoss measures from the loss of power of a node to the first write of its writer elsewhere.
func measurePowerLoss(w *world) error {
	if err := w.begin(); err != nil {
		return err
	}
	for _, loss := range []struct {
		name   string
		leader bool
		aim    aim
	}{
		{"power loss of a node", false, aim{lossAim, false}},
		{"power loss of a node and the leader", true, aim{lossLeaderAim, false}},
	} {
		for _, j := range w.jobs {
			var times []time.Duration
			for run := range w.runs {
				took, err := w.losePower(j, loss.leader)
				if err != nil {
					w.explain()
					return fmt.Errorf("%s, %s, run %d: %w", loss.name, j.policy, run+1, err)
				}
				w.note("%s, %s: %s", loss.name, j.policy, took)
				times = append(times, took)
			}
			printTimes(loss.name+", volume under "+j.policy, times, loss.aim)
		}
	}
	return nil
}

// beatsWithin is the longest time between two heartbeats of a node. A loss of power comes at any time of it.
const beatsWithin = 5 * time.Second

// losePower switches the machine of a writer off, and the leader's if asked for, and returns the time to the
// first write of the next writer. All machines are back when it returns.
func (w *world) losePower(j *job, withLeader bool) (time.Duration, error) {
	writer, epoch := w.journal.newest(j.name)
	name, _, _ := strings.Cut(writer, "/")
	node, err := w.member(name)
	if err != nil {
		return 0, err
	}
	lost := []*member{node}
	if withLeader {
		leader := w.leader()
		if leader == nil {
			return 0, errors.New("no leader")
		}
		lost = append(lost, leader)
	}
	for _, m := range lost { // nobody switches one on meanwhile that the device has switched off
		m.busy <- struct{}{}
	}
	time.Sleep(time.Duration(w.phase.Int64N(int64(beatsWithin))))

	begin := time.Now()
	var ends sync.WaitGroup
	for _, m := range lost {
		ends.Go(m.powerOff)
	}
	var next string
	for time.Since(begin) < settleFor {
		next = w.journal.ackedAfter(j.name, epoch)
		if next != "" {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	took := time.Since(begin)
	ends.Wait()
	for _, m := range lost {
		<-m.busy
	}
	if next == "" {
		return 0, fmt.Errorf("no write of another writer than %s within %s", writer, took)
	}
	w.note("%s wrote on %s, then %s", j.name, name, next)
	return took, w.recover()
}

// recover waits until the cluster is as before.
func (w *world) recover() error {
	return errors.Join(w.startAll(), await(settleFor, w.pluginReady), w.allWriteAgain())
}
