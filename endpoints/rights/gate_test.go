package rights_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/acl"
	"berth/endpoints/rights"
	"berth/internal/mvcc"
	"berth/internal/opsocket"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture has a gate and a database with policies and tokens. The secret of a token is its accessor.
type fixture struct {
	testing.TB
	db    *mvcc.DB
	gate  *rights.Gate
	index uint64
	now   time.Time
	log   strings.Builder
}

func newFixture(t testing.TB, change func(*rights.Config)) *fixture {
	f := &fixture{
		TB:    t,
		db:    mvcc.Open(&schema.All),
		index: 10,
		now:   time.Unix(1000, 0),
	}
	c := rights.Config{
		Mode:   access.ModeEnforce,
		Now:    func() time.Time { return f.now },
		Logger: hclog.New(&hclog.LoggerOptions{Output: &f.log}),
	}
	if change != nil {
		change(&c)
	}
	f.gate = rights.NewGate(c)
	return f
}

func (f *fixture) write(fn func(tx *mvcc.WriteTx) error) {
	f.Helper()
	f.index++
	err := f.db.Write(f.index, fn)
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) policy(name, rules string) {
	f.Helper()
	f.write(func(tx *mvcc.WriteTx) error {
		return state.PolicyPut(tx, &access.PolicyPutRequest{Policy: &access.Policy{Name: name, Rules: rules}})
	})
}

func (f *fixture) token(accessor, kind string, end time.Time, policies ...string) {
	f.Helper()
	f.write(func(tx *mvcc.WriteTx) error {
		t := &access.Token{
			AccessorID: accessor,
			SecretHash: access.HashSecret(accessor),
			Type:       kind,
			Policies:   policies,
		}
		if !end.IsZero() {
			t.ExpireTime = end.UnixNano()
		}
		return state.TokenPut(tx, &access.TokenChange{Token: t, Now: f.now.UnixNano()})
	})
}

// check asks the gate for a request with a secret in the namespace a.
func (f *fixture) check(ctx context.Context, r rights.Right, secret string) error {
	req := &structs.QueryRequest{QueryOptions: structs.QueryOptions{Namespace: "a", AuthToken: secret}}
	return f.gate.Check(ctx, f.db.Read(), r, req)
}

func TestGate_AsksTheTokenOfARequest(t *testing.T) {
	f := newFixture(t, nil)
	f.policy("reader", `namespace "a" { policy = "read" }`)
	f.policy("anonymous", `namespace "a" { capabilities = ["list-jobs"] }`)
	f.token("client", access.TypeClient, time.Time{}, "reader")
	f.token("ends", access.TypeClient, f.now.Add(time.Minute), "reader")
	f.token("root", access.TypeManagement, time.Time{})

	read := rights.Namespace(acl.ReadJob)
	submit := rights.Namespace(acl.SubmitJob)
	list := rights.List(acl.ListJobs)
	for _, c := range []struct {
		right  rights.Right
		secret string
		want   string // in the error, "" for none
	}{
		{read, "client", ""},
		{submit, "client", "this needs namespace: submit-job, and token client does not give it"},
		{submit, "root", ""},
		{read, "ends", ""},
		{read, "unknown", "no token has the secret"},
		{read, strings.Repeat("x", 4097), "4097 bytes"},
		{read, access.Anonymous, "no token that gives it: log in, or set BERTH_TOKEN"},
		{list, access.Anonymous, ""},
		{rights.None("it is public"), access.Anonymous, ""},
		{rights.Management, "client", "a management token"},
		{rights.Right{}, "client", "does not give it"},
		{submit, "", ""}, // a machine: its certificate decides
	} {
		err := f.check(t.Context(), c.right, c.secret)
		denied := structs.IsKind(err, structs.KindDenied) && strings.Contains(err.Error(), c.want)
		if c.want == "" && err != nil || c.want != "" && !denied {
			t.Errorf("%s with %.10q: got %v, want an error with %q", c.right, c.secret, err, c.want)
		}
	}

	f.now = f.now.Add(time.Minute)
	if err := f.check(t.Context(), read, "ends"); !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("after its end a token gives: got %v, want denied", err)
	}
}

func TestGate_SeesAChangedPolicyAtOnce(t *testing.T) {
	f := newFixture(t, nil)
	f.policy("p", `namespace "a" { policy = "read" }`)
	f.token("client", access.TypeClient, time.Time{}, "p")
	read := rights.Namespace(acl.ReadJob)
	if err := f.check(t.Context(), read, "client"); err != nil {
		t.Fatal(err)
	}

	f.policy("p", `namespace "b" { policy = "read" }`)
	if err := f.check(t.Context(), read, "client"); err == nil {
		t.Error("a right that the policy has lost is still given")
	}
}

func TestGate_DeniesByAPolicyThatItCannotRead(t *testing.T) {
	f := newFixture(t, nil)
	f.policy("good", `namespace "a" { policy = "read" }`)
	f.policy("newer", `something_newer {}`)
	f.token("client", access.TypeClient, time.Time{}, "good", "newer")
	if err := f.check(t.Context(), rights.Namespace(acl.ReadJob), "client"); err == nil {
		t.Error("a token with an unreadable policy has rights")
	}
	if !strings.Contains(f.log.String(), "newer") {
		t.Error("no log line names the unreadable policy")
	}
}

func TestGate_LetsRootOnAServerActWithoutAToken(t *testing.T) {
	f := newFixture(t, nil)
	err := f.check(opsocket.Mark(t.Context()), rights.Management, access.Anonymous)
	if err != nil {
		t.Errorf("got %v, want none over the operator socket", err)
	}
}

func TestGate_OnlyLogsAndLetsPass(t *testing.T) {
	f := newFixture(t, func(c *rights.Config) { c.Mode = access.ModeLog })
	f.policy("anonymous", `namespace "a" { policy = "read" }`)
	err := f.check(t.Context(), rights.Management, access.Anonymous)
	if err != nil {
		t.Errorf("got %v, want none: denials are only logged", err)
	}
	if !strings.Contains(f.log.String(), "a request would be denied") ||
		!strings.Contains(f.log.String(), "a management token") {
		t.Errorf("the log has no denial: %s", &f.log)
	}

	list := &structs.QueryRequest{
		QueryOptions: structs.QueryOptions{Namespace: "*", AuthToken: access.Anonymous},
	}
	err = f.gate.Check(t.Context(), f.db.Read(), rights.List(acl.ListJobs), list)
	if err != nil || list.Sees != nil {
		t.Errorf("a list: got error %v and a filter %t, want it whole", err, list.Sees != nil)
	}

	var off *rights.Gate
	if off.Enabled() || off.Check(t.Context(), nil, rights.Management, nil) != nil {
		t.Error("without a gate a request is denied")
	}
}

// A list of all namespaces gets a filter from its right.
func TestGate_GivesAListItsFilter(t *testing.T) {
	f := newFixture(t, nil)
	f.policy("p", `namespace "a" { policy = "read" }`)
	f.token("client", access.TypeClient, time.Time{}, "p")
	req := &structs.QueryRequest{QueryOptions: structs.QueryOptions{Namespace: "*", AuthToken: "client"}}
	err := f.gate.Check(t.Context(), f.db.Read(), rights.List(acl.ListJobs), req)
	if err != nil || req.Sees == nil {
		t.Fatalf("got error %v and a filter %t, want no error and a filter", err, req.Sees != nil)
	}
	if !req.Sees("a", "job") || req.Sees("b", "job") {
		t.Error("the filter shows other namespaces than a")
	}

	seen := rights.Seen("its own name", func(_ rights.Question, _, id string) bool { return id == "x" })
	err = f.gate.Check(t.Context(), f.db.Read(), seen, req)
	if err != nil || !req.Sees("", "x") || req.Sees("", "y") {
		t.Errorf("got error %v, or a filter that shows other rows than x", err)
	}
}

func TestRight_DecidesByTheRequest(t *testing.T) {
	policies, err := acl.Parse("p", `
		namespace "a" {
		  policy = "read"
		  volume "db" { policy = "write" }
		  variables {
		    path "app/*" { capabilities = ["read"] }
		  }
		}
		node_pool "gpu" { policy = "read" }`)
	if err != nil {
		t.Fatal(err)
	}
	type req = cluster.NodePoolGetRequest // a request with a name and a namespace
	of := func(namespace, name string) rights.Question {
		return rights.Question{
			Caller: rights.Caller{ACL: acl.New(policies)},
			Req:    &req{Name: name, QueryOptions: structs.QueryOptions{Namespace: namespace}},
		}
	}
	name := func(r *req) string { return r.Name }
	names := func(r *req) []string { return strings.Split(r.Name, ",") }
	rows := func(_ mvcc.Reader, r *req) []string {
		if r.Name == "" {
			return nil
		}
		return strings.Split(r.Name, ",")
	}
	everywhere, err := acl.Parse("everywhere", `
		namespace "*" {
		  policy = "write"
		  volume "*" { policy = "write" }
		  variables {
		    path "*" { capabilities = ["read"] }
		  }
		}`)
	if err != nil {
		t.Fatal(err)
	}
	wide := func(r rights.Right) rights.Right {
		return rights.Where(r.String()+" with a policy for all namespaces", func(q rights.Question) bool {
			q.ACL = acl.New(everywhere)
			return r.Allows(q)
		})
	}
	volume := rights.Volume(acl.VolumeExpand, names)
	variable := rights.Variable(acl.VariablesRead, name)
	pool := rights.NodePool(acl.PoolRead, name)
	row := rights.NamespaceOf(acl.ReadJob, rows)
	list := rights.List(acl.ListJobs)
	for _, c := range []struct {
		right    rights.Right
		question rights.Question
		want     bool
	}{
		{volume, of("a", "db"), true},
		{volume, of("a", "db,queue"), false},
		{volume, of("b", "db"), false},
		{variable, of("a", "app/x"), true},
		{variable, of("a", "x"), false},
		{pool, of("", "gpu"), true},
		{pool, of("", "cpu"), false},
		{row, of("b", "a"), true},
		{row, of("b", "a,b"), false},
		{row, of("a", ""), true},
		{row, of("b", ""), false},
		{list, of("a", ""), true},
		{list, of("b", ""), false},
		{list, of("*", ""), true},
		{wide(volume), of("*", "db"), false},
		{wide(variable), of("*", "app/x"), false},
		{wide(row), of("*", ""), false},
		{wide(row), of("*", "b"), true},
		{wide(rights.Namespace(acl.ReadJob)), of("*", ""), false},
		{wide(rights.Namespace(acl.ReadJob)), of("b", ""), true},
		{rights.Both(pool, list), of("a", "gpu"), true},
		{rights.Both(pool, list), of("b", "gpu"), false},
	} {
		if got := c.right.Allows(c.question); got != c.want {
			t.Errorf("%s, request %+v: got %t, want %t", c.right, c.question.Req, got, c.want)
		}
	}
}

// The gate parses policies once. Names that run together to one text are still different policies.
func TestGate_KeepsTheRightsOfPolicies(t *testing.T) {
	f := newFixture(t, nil)
	for _, name := range []string{"a", "ab", "b", "bc", "c"} {
		f.policy(name, `namespace "`+name+`" { policy = "read" }`)
	}
	f.token("first", access.TypeClient, time.Time{}, "ab", "c")
	f.token("same", access.TypeClient, time.Time{}, "c", "ab")
	f.token("other", access.TypeClient, time.Time{}, "a", "bc")
	rightsOf := func(secret string) *acl.ACL {
		c, err := f.gate.Resolve(t.Context(), f.db.Read(), secret)
		if err != nil {
			t.Fatal(err)
		}
		return c.ACL
	}

	first := rightsOf("first")
	if rightsOf("first") != first || rightsOf("same") != first {
		t.Error("requests with the same policies have different rights; want the kept ones")
	}
	if rightsOf("other") == first {
		t.Error("requests with other policies have the same rights")
	}
}

// A restore replaces the policies, and those of another cluster may have the same names and indexes.
func TestGate_AsksTheRulesOfARestoredState(t *testing.T) {
	f := newFixture(t, nil)
	begin := f.index
	read := rights.Namespace(acl.ReadJob)
	f.policy("p", `namespace "a" { policy = "read" }`)
	f.token("client", access.TypeClient, time.Time{}, "p")
	err := f.check(t.Context(), read, "client")
	if err != nil {
		t.Fatal(err)
	}

	f.db = mvcc.Open(&schema.All)
	f.index = begin
	f.policy("p", `namespace "b" { policy = "read" }`)
	f.token("client", access.TypeClient, time.Time{}, "p")
	err = f.check(t.Context(), read, "client")
	if !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("got %v, want a denial: the restored policy gives nothing in the namespace", err)
	}
}
