package csi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

// existingVolume is a volume that is at its plugin already.
func existingVolume(id string) *structs.CSIVolume {
	v := endpointstest.Volume(id)
	v.ExternalID = "at-" + id
	return v
}

func register(s *endpointstest.Server, volumes ...*structs.CSIVolume) error {
	_, err := rpc.Call(s.T.Context(), s.RPC, structs.CSIVolumeRegister,
		&structs.CSIVolumeRegisterRequest{Volumes: volumes})
	return err
}

func TestVolumePut_BoundsTheVolumesOfARequest(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	var volumes []*structs.CSIVolume
	for n := range structs.MaxVolumePuts + 1 {
		volumes = append(volumes, existingVolume(fmt.Sprint("v", n)))
	}
	err := endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(volumes...))
	endpointstest.WantText(t, err, "Volumes: 257 are given; expected 1 to 256")
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(volumes[1:]...))
}

func TestVolumePut_RecordsEachVolumeOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, held := endpointstest.NewHolding(t, core.DefaultSettings())
		const volumes, each = 20, 3
		var all sync.WaitGroup
		for n := range volumes * each {
			all.Go(func() {
				if err := register(s, existingVolume(fmt.Sprint("v", n%volumes))); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := held.Arrived(); n != volumes {
			t.Errorf("%d entries are in flight for %d volumes", n, volumes)
		}
		close(held.Free)
		all.Wait()
	})
}

func TestVolumePut_BoundsWaitersOfVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := core.DefaultSettings()
		c.TurnQueue = 2
		s, held := endpointstest.NewHolding(t, c)
		answers := make(chan error, 10)
		for range 4 {
			go func() { answers <- register(s, existingVolume("v")) }()
			synctest.Wait()
		}
		begin := time.Now()
		full := <-answers // there is no place for the fourth
		if structs.RetryAfter(full) == 0 || time.Since(begin) != 0 {
			t.Errorf("the fourth: %v after %s", full, time.Since(begin))
		}
		for range 2 { // those in the queue wait for a limited time
			if err := <-answers; structs.RetryAfter(err) == 0 || time.Since(begin) != core.WritePatience {
				t.Errorf("one in the queue: %v after %s", err, time.Since(begin))
			}
		}
		close(held.Free)
		if err := <-answers; err != nil {
			t.Errorf("the first: %v", err)
		}
		if held.Arrived() != 1 {
			t.Errorf("%d entries were proposed, want 1", held.Arrived())
		}
		if err := register(s, existingVolume("v")); err != nil {
			t.Errorf("after the others: %v", err)
		}
	})
}

// TestVolumeRegister_RejectsSecondVolumeOfExternalID: two names for one volume have separate locks, and still
// only one of them succeeds.
func TestVolumeRegister_RejectsSecondVolumeOfExternalID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, held := endpointstest.NewHolding(t, core.DefaultSettings())
		answers := make(chan error, 8)
		for n := range cap(answers) {
			v := existingVolume(fmt.Sprint("v", n))
			v.ExternalID = "one"
			go func() { answers <- register(s, v) }()
		}
		synctest.Wait()
		if held.Arrived() != cap(answers) {
			t.Fatalf("%d entries are in flight, want %d", held.Arrived(), cap(answers))
		}
		close(held.Free)
		good := 0
		for range cap(answers) {
			if err := <-answers; err == nil {
				good++
			} else if !structs.IsKind(err, structs.KindConflict) {
				t.Errorf("got %v (%s), want a conflict", err, structs.KindOf(err))
			}
		}
		if good != 1 {
			t.Errorf("%d registrations succeeded, want 1", good)
		}
	})
}

// Two names of one volume conflict. The error names the other one only to a caller of its namespace.
func TestVolumePut_NamesNoVolumeOfAnotherNamespace(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	first := existingVolume("first")
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(first))
	second := existingVolume("second")
	second.ExternalID = first.ExternalID
	err := endpointstest.Rejected(s, structs.KindConflict, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(second))
	endpointstest.WantText(t, err, `as volume "first"`)

	second.Namespace = "team"
	endpointstest.Must(s, cluster.NamespaceApply,
		&cluster.NamespaceApplyRequest{Definition: &cluster.Namespace{Name: "team"}})
	err = endpointstest.Rejected(s, structs.KindConflict, structs.CSIVolumeRegister,
		endpointstest.RegisterRequest(second))
	endpointstest.WantText(t, err, "as a volume of another namespace")
	if strings.Contains(err.Error(), `"first"`) || strings.Contains(err.Error(), `"default"`) {
		t.Errorf("the error names a volume of another namespace: %v", err)
	}
}
