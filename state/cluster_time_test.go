package state_test

import (
	"slices"
	"testing"
	"time"

	"berth/state"
	"berth/state/clustertime"
	"berth/state/csi"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/cluster"
)

// clusterTime sets the cluster time.
func (w *fixture) clusterTime(now int64, jumps ...cluster.ClockJump) {
	w.T.Helper()
	p := &cluster.ClusterTimeRequest{Clock: cluster.ClusterTime{Time: now, Jumps: jumps}}
	if old := clustertime.Of(w.Store.Read()); old != nil {
		p.RowIndex = old.ModifyIndex
	}
	do(w, clustertime.Put, p)
}

// A request of a leader whose wall clock is ahead deletes no row of a credential. It goes once its end has
// passed by the cluster time, too.
func TestCredentials_StayByAWallClockThatIsAhead(t *testing.T) {
	const far = int64(100 * 24 * time.Hour)
	w := keyedFixture(t)
	w.clusterTime(3)
	do(w, trust.JoinTokenPut, aJoinToken("t", 2))
	do(w, trust.MachineCertificateSet, aCertificate("t", "n1", "k1"))
	do(w, trust.AuthoritySet, anAuthority("a"))
	do(w, trust.AuthoritySet, anAuthority("b", "a"))
	other := func(id, authority, former string) {
		t.Helper()
		p := aJoinToken(id, 1)
		p.Now, p.ExpireTime = far, 2*far
		do(w, trust.JoinTokenPut, p)
		use := aCertificate(id, "of "+id, "key of "+id)
		use.Now, use.NotAfter = far, 2*far
		do(w, trust.MachineCertificateSet, use)
		next := anAuthority(authority, former)
		next.Now = far
		do(w, trust.AuthoritySet, next)
	}
	kept := func() (rows []bool) {
		tx := w.Store.Read()
		return []bool{
			schema.JoinTokens.Get(tx, "t") != nil,
			trust.MachineCertificate(tx, cluster.JoinNode, "n1") != nil,
			schema.Authorities.Get(tx, "a") != nil,
		}
	}

	other("ahead", "c", "b")
	if got := kept(); slices.Contains(got, false) {
		t.Errorf("a wall clock that is ahead leaves %v of the token, the certificate and the authority", got)
	}
	w.clusterTime(far)
	other("later", "d", "c")
	if got := kept(); slices.Contains(got, true) {
		t.Errorf("when the time has passed, there are %v of the token, the certificate and the authority", got)
	}
}

// An entry of a former leader does not set the cluster time back.
func TestClusterTimeSet_FollowsTheRow(t *testing.T) {
	w := newFixture(t)
	w.clusterTime(7)
	for _, index := range []uint64{0, 1, 1 << 40} {
		do(w, clustertime.Put, &cluster.ClusterTimeRequest{Clock: cluster.ClusterTime{Time: 5}, RowIndex: index})
	}
	if got := clustertime.Of(w.Store.Read()); got.Time != 7 {
		t.Errorf("the time is %d, want 7", got.Time)
	}
}

// The row of a server whose clock differs changes only with the difference, and goes with it.
func TestClusterTimeSet_KeepsTheServersWhoseClocksDiffer(t *testing.T) {
	w := newFixture(t)
	set := func(wrong ...cluster.WrongClock) (rows []cluster.WrongClock) {
		t.Helper()
		p := &cluster.ClusterTimeRequest{Clock: cluster.ClusterTime{Time: 1}, Wrong: wrong}
		if old := clustertime.Of(w.Store.Read()); old != nil {
			p.RowIndex = old.ModifyIndex
		}
		do(w, clustertime.Put, p)
		return clustertime.Wrong(w.Store.Read())
	}
	wrong := func(id string, ahead time.Duration) cluster.WrongClock {
		return cluster.WrongClock{ServerID: id, Server: id + ".global", Ahead: ahead}
	}

	first := set(wrong("a", time.Hour), wrong("b", -time.Hour))
	if len(first) != 2 || first[0].Ahead != time.Hour || first[1].Server != "b.global" {
		t.Fatalf("got %+v", first)
	}
	second := set(wrong("a", time.Hour+time.Second), wrong("b", time.Hour))
	if len(second) != 2 || second[0] != first[0] || second[1].Ahead != time.Hour {
		t.Errorf("after %+v: %+v", first, second)
	}
	// of a former leader
	do(w, clustertime.Put, &cluster.ClusterTimeRequest{Clock: cluster.ClusterTime{Time: 5}})
	if got := clustertime.Wrong(w.Store.Read()); len(got) != 2 {
		t.Errorf("an entry that counts for nothing leaves %+v", got)
	}
	if got := set(wrong("b", time.Hour)); len(got) != 1 || got[0] != second[1] {
		t.Errorf("one is right again: %+v", got)
	}
}

// The schedule of a job begins with its registration by the wall clock, which it follows.
func TestPeriodicLaunch_BeginsByTheWallClock(t *testing.T) {
	w := newFixture(t)
	do(w, clustertime.Put,
		&cluster.ClusterTimeRequest{Clock: cluster.ClusterTime{Time: 100, Ahead: 8 * time.Hour}})
	job := aJob("j", structs.JobBatch)
	job.Periodic = &structs.PeriodicConfig{Enabled: true, Spec: "@hourly"}
	do(w, state.JobRegister, &structs.JobRegisterRequest{Job: job, WriteOptions: structs.WriteOptions{Now: 100}})
	want := int64(8*time.Hour) + 100
	if got := state.PeriodicLaunch(w.Store.Read(), "default", "j"); got == nil || got.Launch != want {
		t.Errorf("the schedule begins with %+v, want %d", got, want)
	}
}

// A call that was sent while the clocks were ahead may still take effect after the cluster time has followed
// them.
func TestVolumeDeregister_WaitsForACallThroughAJump(t *testing.T) {
	const hour = int64(time.Hour)
	for sent, waits := range map[int64]bool{50 * hour: false, 70*hour - 1: true} {
		w := threeNodes(t, false)
		w.clusterTime(100*hour, cluster.ClockJump{Since: 60 * hour, At: 70 * hour, By: 30 * time.Hour})
		w.NoteCall("", &structs.CSICall{NodeID: "n3", Op: "expand", Time: sent})
		err := try(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
			ID:           "v",
			Settle:       time.Hour,
			WriteOptions: structs.WriteOptions{Now: 100*hour + 1},
		})
		if waits != structs.IsKind(err, structs.KindPrecondition) {
			t.Errorf("sent at %s: %v", time.Duration(sent), err)
		}
	}
}
