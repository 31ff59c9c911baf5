package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"

	"berth/endpoints"
	"berth/endpoints/endpointstest"
	"berth/internal/auditlog"
	"berth/internal/opsocket"
	"berth/internal/pki"
	"berth/rpc"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// audited makes a server that asks for tokens write an audit log. It returns the file of the log, and a
// function that returns and forgets its events.
func audited(t *testing.T, s *endpointstest.Server) (path string, events func() []auditlog.Event) {
	t.Helper()
	log, path := openAudit(t)
	d := s.Deps
	d.Audit = log
	s.Endpoints = endpoints.NewWith(d, s.Settings)
	return path, func() []auditlog.Event { return takeEvents(t, path) }
}

// openAudit opens an audit log with a file.
func openAudit(t *testing.T) (log *auditlog.Log, path string) {
	t.Helper()
	c := auditlog.Config{Enabled: true}
	c.Finish(t.TempDir())
	log, err := auditlog.Open(c, auditlog.Deps{Agent: "s1", Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return log, c.Sinks[0].Path
}

// takeEvents returns the events of a file, and empties it.
func takeEvents(t *testing.T, path string) (all []auditlog.Event) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.Truncate(path, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var e auditlog.Event
		err := json.Unmarshal(line, &e)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// stages says of events their kinds, stages, results and objects.
func stages(all []auditlog.Event) string {
	var texts []string
	for _, e := range all {
		text := strings.TrimPrefix(e.Stage, "Operation") + " " + e.Kind + " " + e.Result
		for _, o := range e.Objects {
			text += " " + o.Type + ":" + o.ID
		}
		texts = append(texts, strings.Join(strings.Fields(text), " "))
	}
	return strings.Join(texts, "; ")
}

func TestAudit_HasBothStagesOfAChange(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	token := s.Token
	secret := token(`namespace "team" { policy = "write" }`)
	_, events := audited(t, s)
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.RPC.Close)
	s.Clock = s.Clock.Add(1)

	req := &structs.JobDeregisterRequest{
		JobID: "j",
		WriteOptions: structs.WriteOptions{
			Namespace: "team",
			AuthToken: secret,
			Origin: &structs.Origin{
				RequestID:   "id-1",
				Operation:   "DELETE",
				Endpoint:    "/v1/job/j",
				Remote:      "10.0.0.1:5",
				Certificate: "berth://global/operator/ann",
				Agent:       "s2\n",
			},
		},
	}
	_, err := rpc.Call(rpc.WithPeer(t.Context(), pki.Identity{Region: "global", Role: pki.RoleServer, ID: "s2"}),
		s.RPC, structs.JobDeregister, req)
	if err != nil && !structs.IsKind(err, structs.KindNotFound) {
		t.Fatal(err)
	}
	all := events()
	result := all[len(all)-1].Result
	want := "Received change job:j; Complete change " + result + " job:j"
	if got := stages(all); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	for _, e := range all {
		is := e.Caller
		if is.Accessor == "" || is.Type != access.TypeClient || is.Certificate != "berth://global/operator/ann" ||
			e.RequestID != "id-1" || e.Operation != "DELETE" || e.Endpoint != "/v1/job/j" || e.Agent != "s1" ||
			e.Remote != "10.0.0.1:5" || strings.Contains(e.TakenBy, "\n") || e.Namespace != "team" ||
			!strings.Contains(e.HandedOnBy, "server/s2") || e.Method != "Job.Deregister" {
			t.Errorf("got %+v", e)
		}
	}
	if all[1].Index == 0 && result == "ok" {
		t.Error("the end has no index")
	}
}

// TestAudit_EachChangeNamesItsObject sends an invalid request of each method. The events of a change name
// something, or the method is about the whole cluster.
func TestAudit_EachChangeNamesItsObject(t *testing.T) {
	s := endpointstest.New(t)
	_, events := audited(t, s)
	s.Raft.Fail(structs.Unavailablef("nothing is proposed"))
	whole := map[string]bool{
		"System.GarbageCollect": true, "Operator.SchedulerSetConfiguration": true, "Keyring.Rotate": true,
		"Operator.AutopilotSetConfiguration": true, "Operator.ClockAccept": true,
		"Authority.Replace": true, "ACL.Bootstrap": true,
		"ACL.SetMode":      true,
		"JoinToken.Create": true, "Certificate.Sign": true,
		// Their secrets alone name the tokens.
		"ACL.UpsertOneTimeToken": true, "ACL.ExchangeOneTimeToken": true,
	}
	machines := []string{
		"Node.Register", "Node.UpdateStatus", "Node.UpdateCSI", "Node.Leave", "Node.UpdateAlloc",
		"Node.DeriveSIToken", "CSIVolume.Claim", "CSIVolume.Unpublish", "CSIVolume.NodeExpanded",
		"Certificate.Renew",
	}
	for _, e := range s.List() {
		req := e.New()
		fillNames(req)
		_, _ = e.Serve(opsocket.Mark(t.Context()), req) // the events count, whatever comes of it
		all := events()
		// Nothing is proposed, so these have one line.
		free := strings.HasPrefix(e.Needs, "no token")
		audits := len(all) > 0 && (all[0].Stage == auditlog.Received || free)
		forced := strings.HasPrefix(e.Needs, "the operator socket")
		ofMachines := contains(machines, e.Name)
		if audits != (e.Write && !ofMachines || forced) {
			t.Errorf("%s: the audit log has it: %t (%s)", e.Name, audits, stages(all))
		}
		if !audits {
			continue
		}
		want := 2
		if free {
			want = 1
		}
		if len(all) != want {
			t.Errorf("%s: got %s", e.Name, stages(all))
		}
		if !whole[e.Name] && len(all[0].Objects) == 0 {
			t.Errorf("%s: no object", e.Name)
		}
		for _, o := range all[0].Objects {
			if !strings.HasPrefix(o.ID, "the-") || o.Type == "" {
				t.Errorf("%s: got the object %+v", e.Name, o)
			}
		}
	}
}

func contains(all []string, one string) bool {
	return strings.Contains(" "+strings.Join(all, " ")+" ", " "+one+" ")
}

// fillNames sets the names of a request, and the rows in it.
func fillNames(req any) {
	v := reflect.ValueOf(req).Elem()
	for i := range v.NumField() {
		f := v.Type().Field(i)
		field := v.Field(i)
		switch {
		case f.Anonymous || f.Name == "SecretID":
		case f.Type.Kind() == reflect.String && f.Type == reflect.TypeFor[string]():
			field.SetString("the-" + f.Name)
		case f.Type == reflect.TypeFor[[]string]():
			field.Set(reflect.ValueOf([]string{"the-" + f.Name}))
		case f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct:
			row := reflect.New(f.Type.Elem())
			for _, name := range []string{"ID", "Name", "AccessorID"} {
				id := row.Elem().FieldByName(name)
				if id.IsValid() && id.Kind() == reflect.String {
					id.SetString("the-" + f.Name)
				}
			}
			field.Set(row)
		}
	}
	r, ok := req.(*structs.CSIVolumeRegisterRequest)
	if ok {
		r.Volumes = []*structs.CSIVolume{{ID: "the-volume"}}
	}
	taken, ok := req.(*storage.SnapshotCreateRequest)
	if ok {
		taken.Snapshots = []*storage.CSISnapshot{{SourceVolumeID: "the-volume", Name: "the-snapshot"}}
	}
}

func TestAudit_HasDeniedCalls(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	token := s.Token
	nothing := token(`namespace "nowhere" { policy = "read" }`)
	_, events := audited(t, s)
	serve := func(ctx context.Context, method string, req any) {
		t.Helper()
		for _, e := range s.List() {
			if e.Name == method {
				_, err := e.Serve(ctx, req)
				if !structs.IsKind(err, structs.KindDenied) {
					t.Errorf("%s: got %v, want denied", method, err)
				}
			}
		}
	}
	secured := rpc.WithPeer(t.Context(), pki.Identity{Region: "global", Role: pki.RoleNode, ID: "n1"})
	for name, c := range map[string]struct {
		ctx    context.Context
		method string
		req    any
		want   string
	}{
		"a read": {t.Context(), "Job.GetJob", &structs.JobGetRequest{
			JobID: "j", QueryOptions: structs.QueryOptions{AuthToken: nothing},
		}, "Complete denied denied job:j"},
		"a write": {t.Context(), "Job.Deregister", &structs.JobDeregisterRequest{
			JobID: "j", WriteOptions: structs.WriteOptions{AuthToken: nothing},
		}, "Complete denied denied job:j"},
		"an unknown token": {t.Context(), "Job.Deregister", &structs.JobDeregisterRequest{
			JobID: "j", WriteOptions: structs.WriteOptions{AuthToken: "unknown-secret"},
		}, "Complete denied denied job:j"},
		"without the socket": {t.Context(), "Node.Fence", &cluster.NodeFenceRequest{NodeID: "n"},
			"Complete denied denied node:n"},
		"the secret of a node": {t.Context(), "Node.UpdateStatus", &structs.NodeHeartbeatRequest{NodeID: "n"},
			"Complete denied denied node:n"},
		"a certificate": {secured, "JoinToken.Create", &cluster.JoinTokenCreateRequest{NodeName: "n"},
			"Complete denied denied node:n"},
	} {
		serve(c.ctx, c.method, c.req)
		all := events()
		if got := stages(all); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
			continue
		}
		e := all[0]
		if e.Error == "" || strings.Contains(e.Error, "unknown-secret") {
			t.Errorf("%s: got the error %q", name, e.Error)
		}
		if strings.HasPrefix(name, "a ") && name != "a certificate" && e.Caller.Accessor == "" {
			t.Errorf("%s: got the caller %+v", name, e.Caller)
		}
		if name == "a certificate" && !strings.Contains(e.Caller.Certificate, "node/n1") {
			t.Errorf("%s: got the caller %+v", name, e.Caller)
		}
	}

	endpointstest.Must(s, cluster.StatusPing, &structs.QueryRequest{})
	if got := stages(events()); got != "" {
		t.Errorf("a read that succeeds has the events %s", got)
	}
}

func TestAudit_MarksForcedActions(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	_, events := audited(t, s)
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.RPC.Close)
	for want, call := range map[string]func(ctx context.Context) error{
		"Complete forced ok volume:v": func(ctx context.Context) error {
			req := &structs.CSIVolumeDeregisterRequest{ID: "v", Force: true}
			_, err := rpc.Call(ctx, s.RPC, structs.CSIVolumeDeregister, req)
			return err
		},
		"Complete forced precondition": func(ctx context.Context) error {
			_, _ = rpc.Call(ctx, s.RPC, access.Bootstrap, &access.BootstrapRequest{})
			return nil
		},
		"Complete forced not-found node:gone": func(ctx context.Context) error {
			req := &cluster.NodeFenceRequest{NodeID: "gone", Why: "its power is off"}
			_, _ = rpc.Call(opsocket.Mark(ctx), s.RPC, cluster.NodeFence, req)
			return nil
		},
	} {
		if err := call(t.Context()); err != nil {
			t.Error(err)
		}
		all := events()
		last := all[len(all)-1]
		if last.Kind != auditlog.KindForced || len(all) > 2 || all[0].Kind != auditlog.KindForced {
			t.Errorf("got %s, want %s", stages(all), want)
		}
		if last.Method == "Node.Fence" && (last.Reason != "its power is off" || !last.Caller.Socket) {
			t.Errorf("got %+v", last)
		}
	}
}

func TestAudit_HasTheRowsBeforeAndAfter(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	_, events := audited(t, s)
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.RPC.Close)
	changed := endpointstest.ReadyVolume("v")
	changed.Context = map[string]string{"endpoint": "canary-context"}
	changed.Parameters = map[string]string{"kind": "canary-parameter"}
	changed.MountOptions = &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{"canary-flag"}}
	changed.Secrets = structs.Secrets{"key": "canary-secret"}
	_, err := rpc.Call(t.Context(), s.RPC, structs.CSIVolumeRegister, endpointstest.RegisterRequest(changed))
	all := events()
	if err != nil || len(all) != 2 || len(all[0].Before) != 0 || len(all[1].After) != 1 {
		t.Fatalf("got %v, %+v", err, all)
	}
	text, err := json.Marshal(all)
	if err != nil || bytes.Contains(text, []byte("canary")) {
		t.Errorf("a value that may be secret is in %s, %v", text, err)
	}
	after := all[1].After[0].(map[string]any)
	if after["id"] != "v" || after["secrets"] != "[redacted]" || after["mount_flags"] != "[redacted]" ||
		after["fs_type"] != "ext4" {
		t.Errorf("got %v", after)
	}

	endpointstest.Must(s, structs.CSIVolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v"})
	all = events()
	if len(all[1].Before) != 1 || len(all[1].After) != 0 {
		t.Errorf("got %+v", all[1])
	}
}

// TestAudit_HasNoSecret sends the methods that get secrets, with values that nothing else has.
func TestAudit_HasNoSecret(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	secret := s.ManagementToken()
	path, _ := audited(t, s)
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.RPC.Close)
	options := structs.WriteOptions{AuthToken: secret}
	made := endpointstest.Must(s, access.TokenPut, &access.TokenPutRequest{
		Token: &access.Token{Type: access.TypeManagement, Name: "new"}, WriteOptions: options,
	})
	_, _ = rpc.Call(t.Context(), s.RPC, access.VariableApply, &access.VariableApplyRequest{
		Op: access.VariableSet, Path: "app/db", Items: access.VariableItems{"password": "canary-item"},
		WriteOptions: options,
	})
	_, _ = rpc.Call(t.Context(), s.RPC, structs.JobDispatch, &structs.JobDispatchRequest{
		JobID: "j", Payload: []byte("canary-payload"), Meta: map[string]string{"m": "canary-meta"},
		WriteOptions: options,
	})
	_, _ = rpc.Call(t.Context(), s.RPC, structs.JobRegister, &structs.JobRegisterRequest{
		Job:          &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{{Name: "g", Tasks: []*structs.Task{{Name: "t", Env: map[string]string{"A": "canary-env"}}}}}},
		ConsulToken:  "canary-consul",
		WriteOptions: options,
	})
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{secret, made.SecretID, "canary"} {
		if bytes.Contains(b, []byte(value)) {
			t.Errorf("the audit log has a secret: %s", b)
		}
	}
	for _, want := range []string{"app/db", made.Token.AccessorID, `"id":"j"`} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("the audit log lacks %s", want)
		}
	}
}

// TestAudit_AFailedSinkStopsTheChangeAlone takes the directory of an enforced sink away.
func TestAudit_AFailedSinkStopsTheChangeAlone(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	path, _ := audited(t, s)
	s.RPC = rpc.NewServer(hclog.NewNullLogger(), s.List()...)
	t.Cleanup(s.RPC.Close)
	dir := filepath.Dir(path)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	entries := s.Raft.Len()
	req := &structs.CSIVolumeDeregisterRequest{ID: "v"}
	err := endpointstest.Rejected(s, structs.KindUnavailable, structs.CSIVolumeDeregister, req)
	if !strings.Contains(err.Error(), `sink "audit" is enforced and fails`) || s.Raft.Len() != entries {
		t.Errorf("got %v, and an entry: %t", err, s.Raft.Len() != entries)
	}
	s.GetVolume("v") // a read needs no line
}

// TestAudit_TheOriginIsInNoLogEntry registers a volume with an origin.
func TestAudit_TheOriginIsInNoLogEntry(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	req := endpointstest.RegisterRequest(endpointstest.ReadyVolume("v"))
	req.Origin = &structs.Origin{Remote: "canary-remote"}
	endpointstest.Must(s, structs.CSIVolumeRegister, req)
	if strings.Contains(s.Raft.Text(), "canary-remote") {
		t.Error("an entry of the log has the origin of its request")
	}
	ctx := auditlog.WithOrigin(t.Context(), &structs.Origin{RequestID: "id"})
	if auditlog.OriginFrom(ctx).RequestID != "id" || auditlog.OriginFrom(t.Context()) != nil {
		t.Error("a context does not carry the origin")
	}
}
