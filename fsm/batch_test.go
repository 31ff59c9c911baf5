package fsm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

func must(t rapid.TB) func([]byte, error) []byte {
	return func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
}

func nodeEntry(t rapid.TB, id, secret string) []byte {
	return must(t)(NodeRegister.Encode(&structs.NodeRegisterRequest{
		Node: &structs.Node{ID: id, SecretID: secret},
	}))
}

func TestBatch_EntriesAreAtomicAndHaveResults(t *testing.T) {
	f := New(state.New())
	log := &raft.Log{
		Type:  raft.LogCommand,
		Index: 5,
		Data: Batch.Encode([][]byte{
			nodeEntry(t, "a", "x"),
			nodeEntry(t, "a", "y"),
			must(t)(NodeStatus.Encode(&structs.NodeStatusUpdate{
				NodeIDs: []string{"a", "nobody"},
				Status:  structs.NodeReady,
			})),
			must(t)(NodeUpdateCSI.Encode(&structs.NodeUpdateCSIRequest{NodeID: "nobody"})),
			nodeEntry(t, "b", "y"),
		}),
	}
	answers := f.Apply(log).(Answers)
	for n, want := range []structs.Kind{"", structs.KindDenied, "", structs.KindNotFound, ""} {
		err, _ := answers[n].(error)
		if structs.KindOf(err) != want {
			t.Errorf("entry %d: got result %v, want kind %q", n, answers[n], want)
		}
	}
	tx := f.store.Read()
	if a := state.Node(tx, "a"); a.SecretID != "x" ||
		a.CreateIndex != 5 || state.Node(tx, "b") == nil ||
		tx.Applied() != 5 {
		t.Errorf("after index %d: node a is %+v, or node b is missing", tx.Applied(), a)
	}
}

func TestBatch_StopsTheServerIfItCannotBeDecoded(t *testing.T) {
	good := nodeEntry(t, "a", "x")
	batch := func(entries ...[]byte) []byte { return Batch.Encode(entries) }
	for name, c := range map[string]struct {
		entry []byte
		want  string
	}{
		"nothing":            {batch(), "empty"},
		"an empty entry":     {batch(good, nil), "length of entry 1"},
		"cut off":            {batch(good, good)[:len(good)+5], "length of entry 1"},
		"a length cut off":   {append(batch(good), 0x80), "length of entry 1"},
		"a length too great": {append(batch(good), binary.AppendUvarint(nil, 1<<63)...), "length of entry 1"},
		"unknown": {batch(good, []byte{250, 1}),
			"entry 1 of a batch: this version knows no command 250"},
		"broken":        {batch(good, []byte{NodeRegister.ID, 0xc1}), "payload of NodeRegister"},
		"a batch in it": {batch(good, batch(good)), "a batch inside a batch"},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(state.New())
			defer func() {
				text := fmt.Sprint(recover())
				if !strings.Contains(text, c.want) || !strings.Contains(text, "log entry 7") {
					t.Errorf("got panic %q, want %q in it", text, c.want)
				}
				if state.Node(f.store.Read(), "a") != nil {
					t.Error("a part of the batch was applied")
				}
			}()
			f.Apply(&raft.Log{
				Type:  raft.LogCommand,
				Index: 7,
				Data:  c.entry,
			})
		})
	}
}

// newClaimFSM returns an FSM in which claims are possible: it has two nodes with a plugin, two volumes of the
// plugin and four allocations.
func newClaimFSM(t rapid.TB) (f *FSM, log []*raft.Log) {
	t.Helper()
	f = New(state.New())
	apply := func(entry []byte) {
		l := &raft.Log{
			Type:  raft.LogCommand,
			Index: uint64(len(log) + 1),
			Data:  entry,
		}
		if answer := f.Apply(l); answer != nil {
			t.Fatal(answer)
		}
		log = append(log, l)
	}
	for _, id := range []string{"n1", "n2"} {
		apply(must(t)(NodeRegister.Encode(&structs.NodeRegisterRequest{
			Node: &structs.Node{
				ID:            id,
				NodeResources: &structs.NodeResources{CPU: structs.NodeCPUResources{CpuShares: 1000}},
			},
			CSI: []*structs.CSIPluginInstance{{
				Kind: structs.CSIKindNode,
				CSIInfo: structs.CSIInfo{
					PluginID: "p",
					Healthy:  true,
					NodeInfo: &structs.CSINodeInfo{ID: id},
				},
			}},
		})))
	}
	for _, id := range []string{"v1", "v2"} {
		apply(must(t)(VolumePut.Encode(&structs.CSIVolumeRegisterRequest{
			Volumes: []*structs.CSIVolume{{
				ID:            id,
				CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", ExternalID: id},
			}},
		})))
	}
	apply(must(t)(JobRegister.Encode(&structs.JobRegisterRequest{
		Job: &structs.Job{
			ID:   "j1",
			Type: structs.JobService,
			TaskGroups: []*structs.TaskGroup{{
				Name:  "g",
				Count: 1,
				Tasks: []*structs.Task{{Name: "t", Resources: &structs.Resources{CPU: 10}}},
			}},
		},
	})))
	plan := &structs.Plan{
		JobModifyIndex: uint64(len(log)),
		Eval: &structs.Evaluation{
			ID:     "e1",
			JobID:  "j1",
			Status: structs.EvalComplete,
		},
	}
	for n, id := range []string{"a1", "a2", "a3", "a4"} {
		plan.Place = append(plan.Place, &structs.Allocation{
			ID:        id,
			JobID:     "j1",
			TaskGroup: "g",
			NodeID:    []string{"n1", "n2"}[n%2],
		})
	}
	apply(must(t)(PlanApply.Encode(plan)))
	if state.Alloc(f.store.Read(), "a4") == nil {
		t.Fatal(state.Eval(f.store.Read(), "e1").StatusDescription)
	}
	return f, log
}

// TestBatch_ClaimsKeepTheirOrder checks that claims wait in the order of their batch. A rejected claim takes
// no place, and each claim has its own Seq.
func TestBatch_ClaimsKeepTheirOrder(t *testing.T) {
	f, log := newClaimFSM(t)
	claim := func(volume string, allocs ...string) []byte {
		req := &structs.CSIVolumeClaimRequest{}
		for _, a := range allocs {
			req.Claims = append(req.Claims, &structs.CSIClaim{
				VolumeID:       volume,
				AllocID:        a,
				Mode:           structs.ClaimWrite,
				AccessMode:     structs.CSISingleNodeWriter,
				AttachmentMode: structs.CSIFileSystem,
			})
		}
		return must(t)(VolumeClaim.Encode(req))
	}
	index := uint64(len(log) + 1)
	answers := f.Apply(&raft.Log{
		Type:  raft.LogCommand,
		Index: index,
		Data: Batch.Encode([][]byte{
			claim("v1", "a3"),
			claim("v2", "a4"),
			claim("v1", "a2", "nobody"),
			claim("v1", "a2", "a1"),
			claim("v1", "a4"),
		}),
	}).(Answers)
	err, _ := answers[2].(error)
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("got results %v, want not-found for the third", answers)
	}
	var queue []string
	for _, c := range csi.ClaimsByVolume(f.store.Read(), structs.DefaultNamespace, "v1") {
		queue = append(queue, fmt.Sprint(c.AllocID, " ", c.State, " ", c.Seq))
		if c.CreateIndex != index {
			t.Errorf("the claim of %s was created at %d, want %d", c.AllocID, c.CreateIndex, index)
		}
	}
	want := []string{"a3 granted 0", "a2 waiting 4", "a1 waiting 5", "a4 waiting 6"}
	if !slices.Equal(queue, want) {
		t.Errorf("got queue %v, want %v", queue, want)
	}
	// One batch releases two holders, so a reader sees the last grant only.
	release := func(alloc string) []byte {
		return must(t)(VolumeUnpublish.Encode(&structs.CSIVolumeUnpublishRequest{
			Claims: []structs.CSIClaimKey{{VolumeID: "v1", AllocID: alloc}},
		}))
	}
	f.Apply(&raft.Log{
		Type:  raft.LogCommand,
		Index: index + 1,
		Data:  Batch.Encode([][]byte{release("a3"), release("a2")}),
	})
	c := csi.Claim(f.store.Read(), structs.DefaultNamespace, "v1", "a1")
	if c.State != structs.ClaimGranted || c.GrantIndex != index+1 {
		t.Errorf("the claim is %+v", c)
	}
	for _, fault := range state.Check(f.store.Read()) {
		t.Error(fault)
	}
}

// TestBatch_HasTheEffectOfItsEntries applies random entries in batches of random sizes to two servers. It
// applies the same entries with the same indexes one by one to a third. All three return the same results and
// end with the same bytes. One of them is saved and loaded between two batches. After each batch every
// invariant holds, no two claims have the same place in a queue, and a new grant has a greater index than all
// earlier grants of the volume.
func TestBatch_HasTheEffectOfItsEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := dice{t}
		batched, history := newClaimFSM(t)
		single, _ := newClaimFSM(t)
		replayed := New(state.New())
		seen := grants{}
		for range rapid.IntRange(1, 25).Draw(t, "length") {
			var entries [][]byte
			for range rapid.IntRange(1, 6).Draw(t, "together") {
				entries = append(entries, d.entryOf(batched.store.Read(), d.batchedCommand()))
			}
			index := uint64(len(history) + 1)
			log := &raft.Log{
				Type:  raft.LogCommand,
				Index: index,
				Data:  Batch.Encode(entries),
			}
			history = append(history, log)
			answers := batched.Apply(log).(Answers)
			one := applyEach(single, log.Index, entries)
			if fmt.Sprint(one) != fmt.Sprint(answers) {
				t.Fatalf("entry %d: in a batch %v, one by one %v", log.Index, answers, one)
			}
			for _, fault := range state.Check(batched.store.Read()) {
				t.Fatal(fault)
			}
			seen.update(t, batched.store.Read(), log.Index)
			if d.upTo(9) == 0 {
				batched = reload(t, batched)
			}
		}
		replayed.ApplyBatch(history)
		want := save(t, single)
		if !bytes.Equal(save(t, batched), want) || !bytes.Equal(save(t, replayed), want) {
			t.Fatal("the servers differ")
		}
	})
}

// batchedCommand draws a command that is often in a batch, and sometimes any command.
func (d dice) batchedCommand() string {
	if d.upTo(9) == 0 {
		return d.command()
	}
	return d.of("VolumeClaim", "VolumeClaim", "VolumeUnpublish", "NodeUpdateCSI", "AttachmentOutcome",
		"NodeStatus", "AllocsClientUpdate", "EvalUpdate")
}

// applyEach applies entries with one index one by one.
func applyEach(f *FSM, index uint64, entries [][]byte) (answers Answers) {
	b := f.store.Begin()
	defer b.Abort()
	for _, entry := range entries {
		_, apply, err := decodeEntry(entry)
		if err != nil {
			panic(err)
		}
		var answer any
		if err := b.Apply(index, apply); err != nil {
			answer = err
		}
		answers = append(answers, answer)
	}
	b.Commit()
	return answers
}

// grants has the index of each visible grant.
type grants map[structs.CSIClaimKey]uint64

// update reads the grants. It fails if a new grant has another index than now, or if two claims have one
// place.
func (g grants) update(t rapid.TB, tx *state.ReadTx, now uint64) {
	t.Helper()
	places := map[string]bool{}
	before := maps.Clone(g)
	clear(g)
	for c := range csi.ClaimsFrom(tx, structs.AllNamespaces, "", state.Page{}) {
		place := fmt.Sprint(c.Namespace, "/", c.VolumeID, " ", c.CreateIndex, ",", c.Seq)
		if places[place] {
			t.Fatalf("two claims have the place %s", place)
		}
		places[place] = true
		if c.State != structs.ClaimGranted {
			continue
		}
		g[c.Key()] = c.GrantIndex
		last := before[c.Key()]
		if c.GrantIndex != last && c.GrantIndex != now {
			t.Fatalf("%s: at %d a grant of index %d, after one of %d", place, now, c.GrantIndex, last)
		}
	}
}

// TestBatch_DerivedIDsDiffer checks that two entries of a batch derive different IDs, and that a single entry
// derives the IDs of earlier versions.
func TestBatch_DerivedIDsDiffer(t *testing.T) {
	p := &local{FSM: New(state.New())}
	status := func(s string) []byte {
		return must(t)(NodeStatus.Encode(&structs.NodeStatusUpdate{
			NodeIDs: []string{"n"},
			Status:  s,
		}))
	}
	for _, entry := range [][]byte{
		nodeEntry(t, "n", "x"),
		must(t)(JobRegister.Encode(&structs.JobRegisterRequest{Job: &structs.Job{
			ID:   "j",
			Type: structs.JobSystem,
			TaskGroups: []*structs.TaskGroup{{
				Name:  "g",
				Count: 1,
				Tasks: []*structs.Task{{Name: "t"}},
			}},
		}})),
		status(structs.NodeDown),
	} {
		answer := p.Apply(&raft.Log{
			Type:  raft.LogCommand,
			Index: p.index + 1,
			Data:  entry,
		})
		if answer != nil {
			t.Fatal(answer)
		}
		p.index++
	}
	first := structs.DeriveID(9, "node-update", structs.DefaultNamespace, "j", "n")
	done := must(t)(EvalUpdate.Encode(&structs.EvalUpdateRequest{
		Evals: []*structs.Evaluation{{
			ID:     first,
			JobID:  "j",
			NodeID: "n",
			Status: structs.EvalFailed,
		}},
	}))
	p.Apply(&raft.Log{
		Type:  raft.LogCommand,
		Index: 9,
		Data: Batch.Encode([][]byte{
			status(structs.NodeReady), done, status(structs.NodeDown), status(structs.NodeReady),
		}),
	})
	var got []string
	for e := range state.EvalsFrom(p.store.Read(), structs.AllNamespaces, "", state.Page{}) {
		got = append(got, e.ID)
	}
	last := structs.DeriveID(9, "node-update", structs.DefaultNamespace, "j", "n", "part", "3")
	if !slices.Contains(got, first) ||
		!slices.Contains(got, last) || len(got) != 2 {
		t.Errorf("got IDs %v, want %s and %s", got, first, last)
	}
}

// FuzzBatch checks that decoding a payload does not panic and that the decoded entries survive encoding.
func FuzzBatch(f *testing.F) {
	f.Add(Batch.Encode([][]byte{{1, 0x80}, {2}})[1:])
	f.Add([]byte{})
	f.Add([]byte{0x80, 0x00})
	f.Fuzz(func(t *testing.T, payload []byte) {
		entries, err := Batch.entries(payload)
		if err != nil {
			return
		}
		again, err := Batch.entries(Batch.Encode(entries)[1:])
		if err != nil || !slices.EqualFunc(entries, again, bytes.Equal) {
			t.Errorf("got %v after an encoding of %v, %v", again, entries, err)
		}
	})
}
