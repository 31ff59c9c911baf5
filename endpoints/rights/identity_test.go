package rights_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"berth/acl"
	"berth/endpoints/rights"
	"berth/internal/idtoken"
	"berth/internal/mvcc"
	"berth/state"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
)

const issuer = "https://berth.example.com"

// workloads is a fixture with an allocation of task server in group api of job web, and a key that signs.
type workloads struct {
	*fixture
	signer *idtoken.Signer
}

func newWorkloads(t testing.TB, change ...func(*rights.Config)) *workloads {
	change = append(change, func(c *rights.Config) { c.Issuer = issuer })
	w := &workloads{fixture: newFixture(t, func(c *rights.Config) {
		for _, f := range change {
			f(c)
		}
	})}
	public, private, err := idtoken.Generate(access.KeyEdDSA)
	if err != nil {
		t.Fatal(err)
	}
	w.signer, err = idtoken.NewSigner("k", access.KeyEdDSA, private)
	if err != nil {
		t.Fatal(err)
	}
	w.write(func(tx *mvcc.WriteTx) error {
		schema.SigningKeys.Put(tx, &access.SigningKey{
			KeyID:     "k",
			Algorithm: access.KeyEdDSA,
			PublicKey: public,
			State:     access.KeyActive,
		})
		return nil
	})
	w.alloc(func(*structs.Allocation) {})
	return w
}

// alloc stores the allocation with a change.
func (w *workloads) alloc(change func(*structs.Allocation)) {
	w.Helper()
	a := &structs.Allocation{
		ID:            "alloc",
		Namespace:     "a",
		JobID:         "web/dispatch-1",
		TaskGroup:     "api",
		DesiredStatus: structs.AllocDesiredRun,
		ClientStatus:  structs.AllocRunning,
	}
	change(a)
	w.write(func(tx *mvcc.WriteTx) error {
		schema.Allocs.Put(tx, a)
		return nil
	})
}

// identity signs the identity of the task, with changed claims.
func (w *workloads) identity(change func(*idtoken.Claims)) string {
	w.Helper()
	c := &idtoken.Claims{
		Claims: jwt.Claims{
			Issuer:   issuer,
			Audience: jwt.Audience{structs.DefaultAudience},
			Expiry:   jwt.NewNumericDate(w.now.Add(time.Hour)),
		},
		Namespace: "a",
		JobID:     "web",
		AllocID:   "alloc",
		Task:      "server",
	}
	if change != nil {
		change(c)
	}
	token, err := w.signer.Sign(c)
	if err != nil {
		w.Fatal(err)
	}
	return token
}

// give stores a policy for workloads.
func (w *workloads) give(name, rules string, to access.JobACL) {
	w.Helper()
	w.write(func(tx *mvcc.WriteTx) error {
		p := &access.Policy{Name: name, Rules: rules, JobACL: &to}
		return state.PolicyPut(tx, &access.PolicyPutRequest{Policy: p})
	})
}

// resolve returns the ACL of a token, with the error.
func (w *workloads) resolve(token string) (*acl.ACL, error) {
	caller, err := w.gate.Resolve(w.Context(), w.db.Read(), token)
	return caller.ACL, err
}

func TestIdentity_EndsWithItsAllocation(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*structs.Allocation)
		runs   bool
	}{
		"runs":          {func(*structs.Allocation) {}, true},
		"is pending":    {func(a *structs.Allocation) { a.ClientStatus = structs.AllocPending }, true},
		"is stopped":    {func(a *structs.Allocation) { a.DesiredStatus = structs.AllocDesiredStop }, false},
		"is evicted":    {func(a *structs.Allocation) { a.DesiredStatus = structs.AllocDesiredEvict }, false},
		"is complete":   {func(a *structs.Allocation) { a.ClientStatus = structs.AllocComplete }, false},
		"has failed":    {func(a *structs.Allocation) { a.ClientStatus = structs.AllocFailed }, false},
		"is of another": {func(a *structs.Allocation) { a.Namespace = "b" }, false},
	} {
		w := newWorkloads(t)
		token := w.identity(nil)
		w.alloc(c.change)
		_, err := w.resolve(token)
		if c.runs && err != nil || !c.runs && !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("the allocation %s: got %v", name, err)
		}
	}

	w := newWorkloads(t)
	_, err := w.resolve(w.identity(func(c *idtoken.Claims) { c.AllocID = "unknown" }))
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("an unknown allocation: got %v", err)
	}
}

// The gate asks the claims: see also package idtoken.
func TestIdentity_IsDeniedWithWrongClaims(t *testing.T) {
	w := newWorkloads(t)
	for name, change := range map[string]func(*idtoken.Claims){
		"another issuer":   func(c *idtoken.Claims) { c.Issuer = "https://other.example.com" },
		"another audience": func(c *idtoken.Claims) { c.Audience = jwt.Audience{"vault.io"} },
		"its end":          func(c *idtoken.Claims) { c.Expiry = jwt.NewNumericDate(w.now.Add(-time.Hour)) },
	} {
		_, err := w.resolve(w.identity(change))
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: got %v, want denied", name, err)
		}
	}
}

func TestIdentity_IsWorthNothingWithoutItsKey(t *testing.T) {
	w := newWorkloads(t)
	token := w.identity(nil)
	_, err := w.resolve(token)
	if err != nil {
		t.Fatal(err)
	}
	w.write(func(tx *mvcc.WriteTx) error {
		return trust.SigningKeyRemove(tx, &access.KeyRemoveRequest{KeyID: "k"})
	})
	_, err = w.resolve(token)
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("got %v, want denied", err)
	}
}

func TestIdentity_ReadsItsVariablesAndServices(t *testing.T) {
	w := newWorkloads(t)
	task, err := w.resolve(w.identity(nil))
	if err != nil {
		t.Fatal(err)
	}
	service, err := w.resolve(w.identity(func(c *idtoken.Claims) { c.Task, c.Service = "", "http" }))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		namespace, path string
		right           acl.Capability
		task, service   bool
	}{
		{"a", "nomad/jobs", acl.VariablesRead, true, true},
		{"a", "nomad/jobs/web", acl.VariablesList, true, true},
		{"a", "nomad/jobs/web/api", acl.VariablesRead, true, true},
		{"a", "nomad/jobs/web/api/server", acl.VariablesRead, true, false},
		{"a", "nomad/jobs/web/api/", acl.VariablesRead, false, false},
		{"a", "nomad/jobs/web/api/other", acl.VariablesRead, false, false},
		{"a", "nomad/jobs/web/other", acl.VariablesRead, false, false},
		{"a", "nomad/jobs/other", acl.VariablesRead, false, false},
		{"a", "nomad", acl.VariablesRead, false, false},
		{"b", "nomad/jobs", acl.VariablesRead, false, false},
		{"a", "nomad/jobs/web", acl.VariablesWrite, false, false},
		{"a", "nomad/jobs/web", acl.VariablesDestroy, false, false},
	} {
		if got := task.Variable(c.namespace, c.path, c.right); got != c.task {
			t.Errorf("task: %s %s/%s: got %t", c.right, c.namespace, c.path, got)
		}
		if got := service.Variable(c.namespace, c.path, c.right); got != c.service {
			t.Errorf("service: %s %s/%s: got %t", c.right, c.namespace, c.path, got)
		}
	}
	if !task.Services("a") || task.Services("b") || !task.AnyServices() || task.Namespace("a", acl.ReadJob) {
		t.Error("the identity reads the services of its namespace and nothing else there")
	}
}

func TestIdentity_HasThePoliciesOfItsJob(t *testing.T) {
	for name, c := range map[string]struct {
		to   access.JobACL
		want bool
	}{
		"the job":           {access.JobACL{Namespace: "a", JobID: "web"}, true},
		"the group":         {access.JobACL{Namespace: "a", JobID: "web", Group: "api"}, true},
		"the task":          {access.JobACL{Namespace: "a", JobID: "web", Group: "api", Task: "server"}, true},
		"the child":         {access.JobACL{Namespace: "a", JobID: "web/dispatch-1"}, false},
		"another":           {access.JobACL{Namespace: "a", JobID: "we"}, false},
		"another group":     {access.JobACL{Namespace: "a", JobID: "web", Group: "db"}, false},
		"another task":      {access.JobACL{Namespace: "a", JobID: "web", Group: "api", Task: "other"}, false},
		"another namespace": {access.JobACL{Namespace: "b", JobID: "web"}, false},
	} {
		w := newWorkloads(t)
		w.give("p", `namespace "b" { policy = "read" }`, c.to)
		got, err := w.resolve(w.identity(nil))
		if err != nil || got.Namespace("b", acl.ReadJob) != c.want {
			t.Errorf("a policy for %s: got %t, error %v", name, !c.want, err)
		}
	}
}

// A rule that denies wins over the rights that a workload has by itself. Other rules do not take them away.
func TestIdentity_MayBeDeniedByAPolicy(t *testing.T) {
	for _, c := range []struct {
		rules                     string
		variable, others, service bool
	}{
		{`namespace "*" { policy = "read" }`, true, true, true},
		{`namespace "a" { capabilities = ["list-jobs"] }`, true, true, true},
		{`namespace "a" { policy = "deny" }`, false, false, false},
		{`namespace "a" {
			variables {
				path "nomad/jobs/web" { capabilities = ["deny"] }
			}
		}`, false, true, true},
		{`namespace "a" {
			variables {
				path "nomad/jobs/*" { capabilities = ["write"] }
			}
		}`, true, true, true},
	} {
		w := newWorkloads(t)
		w.give("p", c.rules, access.JobACL{Namespace: "a", JobID: "web"})
		got, err := w.resolve(w.identity(nil))
		if err != nil {
			t.Fatal(err)
		}
		own := got.Variable("a", "nomad/jobs/web", acl.VariablesRead)
		others := got.Variable("a", "nomad/jobs", acl.VariablesRead)
		services := got.Services("a") && got.AnyServices()
		if own != c.variable || others != c.others || services != c.service {
			t.Errorf("%s: variable %t, others %t, services %t", c.rules, own, others, got.Services("a"))
		}
	}
}

// An identity has the rights of its job, and of no token that has a policy of the same name.
func TestIdentity_IsNamedInDenials(t *testing.T) {
	w := newWorkloads(t)
	err := w.check(t.Context(), rights.Management, w.identity(nil))
	if !structs.IsKind(err, structs.KindDenied) ||
		!strings.Contains(err.Error(), "the identity of task server of allocation alloc does not give it") {
		t.Errorf("got %v", err)
	}
}

// The right of a list of services.
func TestServices_ShowsTheNamespaceOfTheWorkload(t *testing.T) {
	w := newWorkloads(t)
	token := w.identity(nil)
	for namespace, want := range map[string]bool{"a": true, "b": false, "*": true} {
		req := &structs.QueryRequest{QueryOptions: structs.QueryOptions{Namespace: namespace, AuthToken: token}}
		err := w.gate.Check(t.Context(), w.db.Read(), rights.Services, req)
		if (err == nil) != want {
			t.Errorf("in %s: got %v", namespace, err)
		}
		if err == nil && (!req.Sees("a", "") || req.Sees("b", "")) {
			t.Errorf("in %s: the list shows others", namespace)
		}
	}
}

func BenchmarkGate_CheckIdentity(b *testing.B) {
	w := newWorkloads(b)
	w.give("p", `namespace "a" { policy = "read" }`, access.JobACL{Namespace: "a", JobID: "web"})
	token := w.identity(nil)
	read := rights.Variable(acl.VariablesRead, func(r *access.VariableGetRequest) string { return r.Path })
	req := &access.VariableGetRequest{Path: "nomad/jobs/web"}
	req.Namespace, req.AuthToken = "a", token
	b.ReportAllocs()
	for b.Loop() {
		err := w.gate.Check(b.Context(), w.db.Read(), read, req)
		if err != nil {
			b.Fatal(err)
		}
	}
}

// TestSender_NamesTheWorkload names the sender of a signed token, whatever it may do.
func TestSender_NamesTheWorkload(t *testing.T) {
	task := access.Identity{AllocID: "alloc", Namespace: "a", JobID: "web", Group: "api", Task: "server"}
	service := task
	service.Task = ""
	service.Service = "http"
	deleted := task
	deleted.AllocID = "gone"
	deleted.Group = ""
	thief := newWorkloads(t)
	w := newWorkloads(t)
	ended := func(c *idtoken.Claims) { c.Expiry = jwt.NewNumericDate(w.now.Add(-time.Hour)) }
	for name, c := range map[string]struct {
		token string
		want  *access.Identity
	}{
		"of a task":        {w.identity(nil), &task},
		"of a service":     {w.identity(func(c *idtoken.Claims) { c.Task = ""; c.Service = "http" }), &service},
		"that has ended":   {w.identity(ended), &task},
		"for others":       {w.identity(func(c *idtoken.Claims) { c.Audience = jwt.Audience{"vault.io"} }), &task},
		"of no row":        {w.identity(func(c *idtoken.Claims) { c.AllocID = "gone" }), &deleted},
		"of another key":   {thief.identity(nil), nil},
		"that is no token": {"a.b.c", nil},
	} {
		req := &structs.QueryRequest{QueryOptions: structs.QueryOptions{AuthToken: c.token}}
		got := w.gate.Sender(w.db.Read(), req)
		if !reflect.DeepEqual(got, access.Caller{Identity: c.want}) {
			t.Errorf("an identity %s: got %+v %+v", name, got, got.Identity)
		}
	}

	w.alloc(func(a *structs.Allocation) { a.ClientStatus = structs.AllocComplete })
	req := &structs.QueryRequest{QueryOptions: structs.QueryOptions{AuthToken: w.identity(nil)}}
	if got := w.gate.Sender(w.db.Read(), req).Identity; got == nil || *got != task {
		t.Errorf("of an allocation that has ended: got %+v", got)
	}
}

// TestRunsOn_IsTrueForATaskOfTheNodeAlone asks whether a node may pass on a request.
func TestRunsOn_IsTrueForATaskOfTheNodeAlone(t *testing.T) {
	w := newWorkloads(t)
	w.alloc(func(a *structs.Allocation) { a.NodeID = "n1" })
	thief := newWorkloads(t)
	own := w.identity(nil)
	ended := w.identity(func(c *idtoken.Claims) { c.Expiry = jwt.NewNumericDate(w.now.Add(-time.Hour)) })
	for name, c := range map[string]struct {
		secret, node string
		want         bool
	}{
		"of its own task":        {own, "n1", true},
		"of a task of another":   {own, "n2", false},
		"of no token":            {"x", "n1", false},
		"of no secret":           {"", "n1", false},
		"of another cluster":     {thief.identity(nil), "n1", false},
		"of a token that is old": {ended, "n1", false},
	} {
		if got := w.gate.RunsOn(w.db.Read(), c.secret, c.node); got != c.want {
			t.Errorf("a request %s: got %t", name, got)
		}
	}
	w.alloc(func(a *structs.Allocation) { a.ClientStatus = structs.AllocComplete })
	if w.gate.RunsOn(w.db.Read(), own, "n1") {
		t.Error("the allocation has ended, and its node passes its requests on")
	}
}

func TestRunsOn_IsFalseWhileRightsAreNotEnforced(t *testing.T) {
	w := newWorkloads(t, func(c *rights.Config) { c.Mode = access.ModeLog })
	w.alloc(func(a *structs.Allocation) { a.NodeID = "n1" })
	if w.gate.RunsOn(w.db.Read(), w.identity(nil), "n1") {
		t.Error("a node passes on the requests of its tasks")
	}
}
