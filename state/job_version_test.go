package state_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/structs"
)

// store is a state with an entry after the other.
type store struct {
	*state.Store
	t     *testing.T
	index uint64
}

// newStore has the job "j" with some versions.
func newStore(t *testing.T, versions int) *store {
	s := &store{Store: state.New(), t: t, index: 10}
	for range versions {
		s.register()
	}
	return s
}

// try applies an entry, and checks the invariants after it.
func try[P any](s *store, apply func(*mvcc.WriteTx, *P) error, p *P) error {
	s.t.Helper()
	s.index++
	err := s.Write(s.index, func(tx *state.WriteTx) error { return apply(tx, p) })
	for _, fault := range state.Check(s.Read()) {
		s.t.Error(fault)
	}
	return err
}

func must[P any](s *store, apply func(*mvcc.WriteTx, *P) error, p *P) {
	s.t.Helper()
	err := try(s, apply, p)
	if err != nil {
		s.t.Fatal(err)
	}
}

// register registers another version of the job.
func (s *store) register() {
	s.t.Helper()
	j := &structs.Job{ID: "j", Name: fmt.Sprint(s.index)}
	must(s, state.JobRegister, &structs.JobRegisterRequest{Job: j})
}

func (s *store) tag(version uint64, name string) error {
	s.t.Helper()
	return try(s, state.JobTag, &structs.JobTagRequest{
		JobID:        "j",
		JobVersion:   version,
		TagName:      name,
		Description:  "of " + name,
		WriteOptions: structs.WriteOptions{Now: int64(s.index)},
	})
}

func (s *store) untag(name string) error {
	s.t.Helper()
	return try(s, state.JobUntag, &structs.JobUntagRequest{JobID: "j", TagName: name})
}

func (s *store) job() *structs.Job { return state.Job(s.Read(), structs.DefaultNamespace, "j") }

// versions lists the stored versions with their tags.
func (s *store) versions() (list []string) {
	for v := range state.JobVersions(s.Read(), structs.DefaultNamespace, "j") {
		text := fmt.Sprint(v.Version)
		if v.VersionTag != nil {
			text += v.VersionTag.Name
		}
		list = append(list, text)
	}
	return list
}

func (s *store) want(versions ...string) {
	s.t.Helper()
	if got := s.versions(); !slices.Equal(got, versions) {
		s.t.Errorf("the versions are %q, want %q", got, versions)
	}
}

func wantKind(t *testing.T, err error, kind structs.Kind, text string) {
	t.Helper()
	if !structs.IsKind(err, kind) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want an error of kind %s with %q", err, kind, text)
	}
}

func TestTag_IsOnTheVersionAndOnTheCurrentJob(t *testing.T) {
	s := newStore(t, 2)
	before := s.job()
	if err := s.tag(1, "golden"); err != nil {
		t.Fatal(err)
	}
	s.want("0", "1golden")
	j := s.job()
	want := structs.JobVersionTag{Name: "golden", Description: "of golden", TaggedTime: int64(s.index) - 1}
	if j.VersionTag == nil || *j.VersionTag != want {
		t.Errorf("the job has the tag %+v, want %+v", j.VersionTag, want)
	}
	if j.JobModifyIndex != before.JobModifyIndex || j.Version != 1 || before.VersionTag != nil {
		t.Errorf("the tag has changed the specification: %+v", j)
	}
	if s.tag(0, "first") != nil || s.job().VersionTag.Name != "golden" {
		t.Error("the tag of an earlier version is on the job")
	}
	if err := s.tag(1, "gold"); err != nil { // it replaces the other
		t.Fatal(err)
	}
	s.want("0first", "1gold")
	if err := s.untag("gold"); err != nil {
		t.Fatal(err)
	}
	s.want("0first", "1")
	if s.job().VersionTag != nil {
		t.Error("the job has the tag still")
	}
}

func TestTag_RejectsFaults(t *testing.T) {
	s := newStore(t, 2)
	if err := s.tag(0, "golden"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.tag(1, "golden"), structs.KindConflict, `version 0 of job "j" has the tag "golden"`)
	wantKind(t, s.tag(7, "x"), structs.KindNotFound, "there is no version 7")
	wantKind(t, s.tag(1, ""), structs.KindInvalid, "missing")
	wantKind(t, s.tag(1, strings.Repeat("x", structs.MaxJobTagName+1)), structs.KindInvalid,
		"129 bytes; at most 128")
	wantKind(t, s.tag(1, "a\nb"), structs.KindInvalid, "control characters")
	wantKind(t, s.tag(1, "\xff"), structs.KindInvalid, "UTF-8")
	wantKind(t, s.untag("other"), structs.KindNotFound, `no version of job "j" has the tag "other"`)
	s.want("0golden", "1")

	none := &structs.JobTagRequest{JobID: "none", TagName: "x"}
	wantKind(t, try(s, state.JobTag, none), structs.KindNotFound, `no job "none"`)
	unset := &structs.JobUntagRequest{JobID: "none", TagName: "x"}
	wantKind(t, try(s, state.JobUntag, unset), structs.KindNotFound, `no job "none"`)
	long := &structs.JobTagRequest{JobID: "j", TagName: "x"}
	long.Description = strings.Repeat("x", structs.MaxJobTagDescription+1)
	wantKind(t, try(s, state.JobTag, long), structs.KindInvalid, "1001 bytes")
}

func TestTag_KeepsItsVersionUntilItIsRemoved(t *testing.T) {
	s := newStore(t, 2)
	if err := s.tag(0, "golden"); err != nil {
		t.Fatal(err)
	}
	for range 7 {
		s.register()
	}
	s.want("0golden", "2", "3", "4", "5", "6", "7", "8")
	if err := s.untag("golden"); err != nil {
		t.Fatal(err)
	}
	s.register()
	s.want("3", "4", "5", "6", "7", "8", "9")
}

func TestTag_IsNotThatOfTheNextVersion(t *testing.T) {
	s := newStore(t, 1)
	if err := s.tag(0, "golden"); err != nil {
		t.Fatal(err)
	}
	stored := s.job().Copy() // as a user reads it and registers it again
	must(s, state.JobRegister, &structs.JobRegisterRequest{Job: stored})
	s.want("0golden")
	stored = stored.Copy()
	stored.Name = "other"
	must(s, state.JobRegister, &structs.JobRegisterRequest{Job: stored})
	s.want("0golden", "1")
	must(s, state.JobRevert, &structs.JobRevertRequest{JobID: "j"})
	s.want("0golden", "1", "2")
	must(s, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "j"})
	s.want("0golden", "1", "2", "3")
	must(s, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "j", Purge: true})
	s.want()
}

func TestTag_HasABoundOfVersions(t *testing.T) {
	s := newStore(t, 1)
	for n := range structs.MaxJobTags {
		if err := s.tag(uint64(n), fmt.Sprint("t", n)); err != nil {
			t.Fatal(err)
		}
		s.register()
	}
	wantKind(t, s.tag(structs.MaxJobTags, "more"), structs.KindPrecondition, "64 other versions")
	if err := s.tag(0, "again"); err != nil { // it has one already
		t.Error(err)
	}
}
