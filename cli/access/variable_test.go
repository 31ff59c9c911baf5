package access

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/cli/command"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// TestMain runs the tests. A test starts this program again as the guard of a command, as berth does, and as
// the command line.
func TestMain(m *testing.M) {
	args := os.Args
	switch {
	case len(args) > 2 && args[1] == "executor" && args[2] == GuardArg:
		os.Exit(GuardMain(args[3:]))
	case len(args) > 1 && args[1] == "var":
		root := command.Command{Name: "berth", Sub: []command.Command{{Name: "var", Sub: VariableCommands}}}
		std := command.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
		os.Exit(root.Main(context.Background(), args[1:], std))
	}
	goleak.VerifyTestMain(m)
}

// variableStore is a cluster with one variable, or none.
type variableStore struct {
	t      *testing.T
	addr   string
	caller *apitest.Caller

	mu       sync.Mutex
	v        *access.OpenVariable
	index    uint64
	renewals int
	renewed  func(n int)                 // see onRenewal, nil for nothing
	lostWith string                      // renewals are conflicts once this file exists
	released chan struct{}               // closed by the first release
	inTheWay func() *access.OpenVariable // what keeps the lock from a caller, nil for nothing
}

func newVariableStore(t *testing.T) *variableStore {
	s := &variableStore{t: t, caller: &apitest.Caller{}, index: 10, released: make(chan struct{})}
	apitest.On(s.caller, access.VariableApply, s.apply)
	apitest.On(s.caller, access.VariableRenew, s.renew)
	apitest.On(s.caller, access.VariableGet, s.get)
	apitest.On(s.caller, access.VariableList, s.list)
	apitest.Answer(s.caller, cluster.NamespaceList, cluster.NamespaceListResponse{})
	s.addr = clitest.Serve(t, s.caller, clitest.NewAgent(t.TempDir()))
	return s
}

func (s *variableStore) apply(
	_ context.Context, r *access.VariableApplyRequest,
) (*access.VariableApplyResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := uint64(0)
	if s.v != nil {
		now = s.v.ModifyIndex
	}
	resp := &access.VariableApplyResponse{}
	held := s.v != nil && s.v.Lock != nil
	if r.Op == access.VariableAcquire && s.inTheWay != nil {
		resp.Conflict = s.inTheWay()
		if resp.Conflict != nil {
			return resp, nil
		}
	}
	if r.CheckIndex != nil && *r.CheckIndex != now || held && r.Op == access.VariableAcquire {
		resp.Conflict = &access.OpenVariable{}
		if s.v != nil {
			resp.Conflict = s.v
		}
		return resp, nil
	}

	s.index++
	next := &access.OpenVariable{Items: r.Items}
	next.Path = r.Path
	next.Namespace = r.RequestNamespace()
	next.ModifyIndex = s.index
	next.CreateIndex = s.index
	switch r.Op {
	case access.VariableDelete:
		s.v = nil
		return resp, nil
	case access.VariableAcquire:
		next.Lock = &access.VariableLock{ID: "lock-1", TTL: r.Lock.TTL, LockDelay: r.Lock.LockDelay}
	case access.VariableRelease:
		close(s.released)
	}
	s.v = next
	resp.Variable = next
	return resp, nil
}

func (s *variableStore) renew(
	context.Context, *access.VariableRenewRequest,
) (*access.VariableRenewResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewals++
	if s.renewed != nil {
		s.renewed(s.renewals)
	}
	if _, err := os.Stat(s.lostWith); err == nil {
		return &access.VariableRenewResponse{Conflict: &access.OpenVariable{}}, nil
	}
	return &access.VariableRenewResponse{Variable: &s.v.VariableMetadata}, nil
}

func (s *variableStore) get(
	context.Context, *access.VariableGetRequest,
) (*access.VariableGetResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.v == nil {
		return nil, structs.NotFoundf("there is no variable")
	}
	return &access.VariableGetResponse{Variable: s.v}, nil
}

func (s *variableStore) list(
	context.Context, *access.VariableListRequest,
) (*access.VariableListResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &access.VariableListResponse{}
	if s.v != nil {
		resp.Variables = append(resp.Variables, &s.v.VariableMetadata)
	}
	return resp, nil
}

// onRenewal sets a function that is called with the number of each renewal.
func (s *variableStore) onRenewal(f func(n int)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed = f
}

// run runs berth var with arguments, and returns its output.
func (s *variableStore) run(want int, typed string, args ...string) (out, errs string) {
	s.t.Helper()
	tree := []command.Command{{Name: "var", Sub: VariableCommands}}
	line := append([]string{"var", args[0], "-address", s.addr}, args[1:]...)
	code, out, errs := clitest.RunTyped(s.t, tree, typed, line...)
	if code != want {
		s.t.Errorf("%q: exit code %d, want %d: %s%s", args, code, want, out, errs)
	}
	return out, errs
}

func TestPut_TakesItemsFromArgumentsFilesAndSpecifications(t *testing.T) {
	s := newVariableStore(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		name = filepath.Join(dir, name)
		clitest.WriteFile(t, name, []byte(text))
		return name
	}
	password := write("password", "hunter2\n")
	asHCL := write("spec.nv.hcl", `path = "app/db"
items {
  user = "a${"b"}"
  port = 80
}`)
	asJSON := write("spec.json", `{"Path":"x","Items":{"user":"c"}}`)
	for _, c := range []struct {
		typed string
		args  []string
		want  map[string]string
	}{
		{
			"",
			[]string{"app/db", "user=me", "password=@" + password},
			map[string]string{"user": "me", "password": "hunter2\n"},
		},
		{"typed", []string{"app/db", "user=-", "x=a=b"}, map[string]string{"user": "typed", "x": "a=b"}},
		{"", []string{"@" + asHCL, "port=81"}, map[string]string{"user": "ab", "port": "81"}},
		{"", []string{"app/db", "@" + asJSON}, map[string]string{"user": "c"}},
		{`{"Path":"app/db","Items":{"k":"v"}}`, []string{"-in", "json", "-", "u=w"}, map[string]string{"k": "v", "u": "w"}},
	} {
		out, errs := s.run(0, c.typed, append([]string{"put"}, c.args...)...)
		if fmt.Sprint(map[string]string(s.v.Items)) != fmt.Sprint(c.want) || s.v.Path != "app/db" {
			t.Errorf("%q wrote %v", c.args, map[string]string(s.v.Items))
		}
		if !strings.Contains(out, `Variable "app/db" is created`) || strings.Contains(out+errs, "hunter2") {
			t.Errorf("%q: %s%s", c.args, out, errs)
		}
	}

	for _, bad := range [][]string{
		{"app/db", "=x"}, {"app/db", "canary"}, {"@" + asHCL + "x"}, {"-in", "x", "@" + asHCL},
	} {
		_, errs := s.run(2, "", append([]string{"put"}, bad...)...)
		if strings.Contains(errs, "canary") {
			t.Errorf("%q shows a value: %s", bad, errs)
		}
	}
	_, errs := s.run(2, `{"Path":"a","Items":{"k":hunter2}}`, "put", "-")
	if strings.Contains(errs, "hunter2") {
		t.Errorf("a wrong specification is shown: %s", errs)
	}
}

// An agent that gives no values names its socket, and the command to run there has no values either.
func TestPut_ShowsNoValueInTheNextCommand(t *testing.T) {
	s := newVariableStore(t)
	apitest.Fail(s.caller, access.VariableApply, &structs.Error{
		Kind:   structs.KindDenied,
		Text:   "over the socket alone",
		Socket: "/run/berth.sock",
	})
	_, errs := s.run(3, "", "put", "app/db", "password=hunter2")
	if strings.Contains(errs, "hunter2") || !strings.Contains(errs, "password=-") {
		t.Errorf("got %s", errs)
	}
}

func TestPut_ChecksTheIndex(t *testing.T) {
	s := newVariableStore(t)
	s.run(5, "", "put", "-check-index", "7", "a", "k=v")
	s.run(0, "", "put", "-check-index", "0", "a", "k=v")
	spec := `{"Path":"a","ModifyIndex":3,"Items":{"k":"w"}}`
	s.run(5, spec, "put", "-")
	s.run(0, spec, "put", "-force", "-")
	s.run(5, "", "purge", "-check-index", "3", "a")
	s.run(0, "", "purge", "a")
	s.run(4, "", "get", "a")
}

func TestGet_ShowsAVariableInAFormat(t *testing.T) {
	s := newVariableStore(t)
	s.run(0, "", "put", "app/db", "password=${hunter2}", "user=me")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-item", "user"}, "me"},
		{nil, "password  ${hunter2}"},
		{[]string{"-out", "json"}, `"password": "${hunter2}"`},
		{[]string{"-json"}, `"ModifyIndex": 11`},
		{[]string{"-out", "hcl"}, `password = "$${hunter2}"`},
		{[]string{"-out", "go-template", "-template", "{{ .Path }}={{ .Items.user }}"}, "app/db=me"},
	} {
		out, _ := s.run(0, "", append(append([]string{"get"}, c.args...), "app/db")...)
		if !strings.Contains(out, c.want) {
			t.Errorf("%q: got %s, want %s", c.args, out, c.want)
		}
	}
	out, _ := s.run(0, "", "get", "-out", "none", "app/db")
	if out != "" {
		t.Errorf("none: %s", out)
	}
	s.run(4, "", "get", "-item", "absent", "app/db")
	s.run(2, "", "get", "-out", "xml", "app/db")
	out, _ = s.run(0, "", "list")
	if !strings.Contains(out, "app/db") || strings.Contains(out, "hunter2") {
		t.Errorf("list: %s", out)
	}

	again, _ := s.run(0, "", "get", "-out", "hcl", "app/db")
	s.run(0, again, "put", "-in", "hcl", "-")
	if s.v.Items["password"] != "${hunter2}" {
		t.Errorf("the output of get became %q", s.v.Items["password"])
	}
}

func TestInit_WritesASpecificationThatPutReads(t *testing.T) {
	s := newVariableStore(t)
	for _, format := range []string{"hcl", "json"} {
		name := filepath.Join(t.TempDir(), "spec."+format)
		s.run0("init", "-out", format, name)
		s.run(0, "", "put", "nomad/jobs/web", "@"+name)
		if s.v.Items["password"] != "change me" {
			t.Errorf("%s: wrote %v", format, map[string]string(s.v.Items))
		}
	}
}

// run0 runs a command that calls no agent.
func (s *variableStore) run0(args ...string) {
	s.t.Helper()
	tree := []command.Command{{Name: "var", Sub: VariableCommands}}
	code, out, errs := clitest.Run(s.t, tree, append([]string{"var"}, args...)...)
	if code != 0 {
		s.t.Errorf("%q: exit code %d: %s%s", args, code, out, errs)
	}
}
