package simulate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

var (
	seedFlag  = flag.Uint64("seed", 1, "the choices of the simulation")
	hoursFlag = flag.Float64("hours", 0, "the cluster-hours of TestSimulate; 0: a few")
	logFlag   = flag.String("log", "", "a file for the log of TestSimulate")
)

// few is the number of cluster-hours without a flag.
const few = 6

// faultyFor is the time in which faults happen in one cluster, and quietFor the most after it.
const (
	faultyFor = 3 * time.Hour
	quietFor  = time.Hour
)

// TestSimulate runs clusters for some cluster-hours. Without flags it repeats them: the logs must be equal.
// `make simulate` runs it with flags.
func TestSimulate(t *testing.T) {
	hours := *hoursFlag
	if hours == 0 {
		hours = few
	}
	log := io.Discard
	if *logFlag != "" {
		file, err := os.Create(*logFlag)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		log = file
	}
	began := time.Now()
	first := simulate(t, *seedFlag, hours, log)
	took := time.Since(began)
	fmt.Printf("seed: %d\nclusters: %d\ncluster-hours: %.1f\nentries: %d\nseconds: %.1f\n",
		*seedFlag, first.clusters, first.hours, first.entries, took.Seconds())
	fmt.Printf("violations: %d\nsha256: %x\n", first.violations, first.sum)
	if first.violations > 0 {
		t.Errorf("%d violations:\n%s", first.violations, strings.Join(first.texts, "\n"))
	}
	if *hoursFlag == 0 {
		second := simulate(t, *seedFlag, hours, io.Discard)
		if !bytes.Equal(first.sum, second.sum) {
			t.Error("two runs of one seed wrote different logs")
		}
	}
}

// result sums up the clusters of a run.
type result struct {
	clusters   int
	hours      float64
	entries    int
	violations int
	texts      []string
	sum        []byte
}

// simulate runs one cluster after the other.
func simulate(t *testing.T, seed uint64, hours float64, log io.Writer) (r result) {
	t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed) // the IDs of the scheduler
		hash := sha256.New()
		synctest.Test(t, func(*testing.T) {
			for r.hours < hours {
				w := newWorld(seed, uint64(r.clusters), io.MultiWriter(hash, log))
				w.live()
				r.clusters++
				r.hours += w.now.Hours()
				r.entries += len(w.entries)
				r.violations += w.violations
				for _, text := range w.texts {
					r.texts = append(r.texts, fmt.Sprintf("cluster %d: %s", r.clusters, text))
				}
			}
		})
		r.sum = hash.Sum(nil)
	})
	return r
}

func newWorld(seed, number uint64, log io.Writer) *world {
	w := &world{
		Rand:  rand.New(rand.NewPCG(seed, number)),
		log:   log,
		began: time.Now(),
		store: state.New(),
		seen:  newSeen(),
	}
	w.note("cluster %d", number)
	w.fsm = fsm.New(w.store)
	w.quarantine = oneOf(w, 5*time.Minute, time.Hour)
	for _, name := range serverNames {
		w.addServer(name, w.newClocks())
	}
	w.device = &device{w: w, mode: deviceWorks}
	for i := range 4 + w.IntN(3) {
		w.nodes = append(w.nodes, &node{
			w:      w,
			id:     fmt.Sprint("n", i),
			clocks: w.newClocks(),
			ledger: map[string][]structs.CSIClaimKey{},
			ended:  map[string]ending{},
		})
	}
	for i := range 3 + w.IntN(3) {
		w.volumes = append(w.volumes, &volume{
			id:     fmt.Sprint("v", i),
			policy: oneOf(w, policies...),
		})
	}
	return w
}

// live is the life of a cluster.
func (w *world) live() {
	ctx := context.Background()
	w.followClocks()
	w.elect()
	for _, n := range w.nodes {
		n.powerOn()
	}
	w.pass(ctx, time.Minute)
	for _, v := range w.volumes {
		w.putVolume(v)
		w.jobs = append(w.jobs, v.id)
	}
	w.jobs = append(w.jobs, "plain")
	for _, id := range w.jobs {
		w.register(id)
	}
	w.pass(ctx, time.Minute)
	w.disturb()
	for end := w.now + faultyFor; w.now < end; {
		w.pass(ctx, 5*time.Minute)
		w.checkRows()
	}
	w.calmDown(ctx)
	w.checkReplay()
}

func (w *world) putVolume(v *volume) {
	row := &structs.CSIVolume{
		ID: v.id, Namespace: structs.DefaultNamespace,
		CSIVolumeSpec: structs.CSIVolumeSpec{
			Name:       v.id,
			PluginID:   thePlugin,
			ExternalID: v.id,
			OnNodeLoss: v.policy,
		},
	}
	for {
		err := propose(w, fsm.VolumePut, &structs.CSIVolumeRegisterRequest{
			Volumes:      []*structs.CSIVolume{row},
			WriteOptions: w.stamp(),
		})
		if err == nil {
			return
		}
		w.pass(context.Background(), time.Second)
	}
}
