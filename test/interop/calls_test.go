package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	public "github.com/hashicorp/nomad/api"
)

// callsGolden lists the calls of the public client with the outcome of each, and their number.
const callsGolden = "testdata/client_calls.txt"

// The least numbers of calls, and of different requests that they make, that work.
const (
	leastCalls    = 175
	leastRequests = 120
)

// TestClient_MakesItsCalls makes each call of the public client at real agents, and compares the outcomes
// with a list. A call is an exported method of a handle that asks an agent. The outcomes are:
//
//   - works: the call succeeds, and its answer has what its check wants (see callRows).
//   - no route, or rejected: berth does not have what the call asks for, for the reason in withoutRoute.
//   - empty: the answer has the right shape and nothing in it, for the reason in withoutRoute.
//
// Several calls are the same request with other parameters: List and PrefixList, Create and CreateOpts. So
// the list also ends with the number of requests (method and path). Those of the dialect's enterprise
// edition, and of tokens and policies, are not among all requests: berth has neither.
func TestClient_MakesItsCalls(t *testing.T) {
	t.Parallel()
	c := connectToAgent(t)
	outcomes := makeCalls(t, newCallFixture(t, c))
	requests := requestsOfCalls(t)
	working := map[string]bool{}
	counted := map[string]bool{}
	works := 0
	var lines []string
	for _, call := range publicCalls(c) {
		outcome, made := outcomes[call.name]
		request := requests[call.name]
		if !made {
			outcome = rejectionOf(t, call)
		}
		lines = append(lines, call.name+": "+outcome)
		if outcome == callWorks {
			works++
		}
		if request == "" { // it makes those of other calls
			continue
		}
		if !strings.Contains(outcome, enterprise) && !strings.Contains(outcome, introductions) {
			counted[request] = true
		}
		if outcome == callWorks {
			working[request] = true
		}
	}
	lines = append(lines,
		fmt.Sprintf("%d of %d calls work", works, len(lines)),
		fmt.Sprintf("%d of %d requests work", len(working), len(counted)))
	if works < leastCalls || len(working) < leastRequests {
		t.Errorf("%d calls and %d requests work, want at least %d and %d",
			works, len(working), leastCalls, leastRequests)
	}
	got := strings.Join(lines, "\n") + "\n"
	if *update {
		if err := os.WriteFile(callsGolden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(callsGolden)
	if err != nil || got != string(want) {
		t.Errorf("the calls differ from %s (%v); they are\n%s", callsGolden, err, got)
	}
}

// callWorks is the outcome of a call that does what it says.
const callWorks = "works"

// callRow makes a call and checks its answer. The rows of one list run in its order.
type callRow struct {
	name string
	make func(f *callFixture) error
}

// try makes the call. An answer without what its check reads is an error.
func (r callRow) try(f *callFixture) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the answer lacks something: %v", p)
		}
	}()
	return r.make(f)
}

// makeCalls makes the calls that are expected to succeed and returns their outcomes.
func makeCalls(t *testing.T, f *callFixture) map[string]string {
	t.Helper()
	outcomes := map[string]string{}
	for _, rows := range callRows {
		for _, row := range rows {
			if outcomes[row.name] != "" {
				t.Errorf("%s has two rows", row.name)
			}
			outcome := callWorks
			err := row.try(f)
			switch {
			case err != nil:
				t.Errorf("%s: %v", row.name, err)
				outcome = "fails"
			case notWorking[row.name] != "":
				outcome = notWorking[row.name] + ": " + reasonOf(row.name)
			}
			outcomes[row.name] = outcome
		}
	}
	return outcomes
}

// publicCall is a method of a handle of the public client.
type publicCall struct {
	name   string
	method reflect.Value
}

// publicCalls returns the calls of a client in the order of their names.
func publicCalls(c *public.Client) (calls []publicCall) {
	client := reflect.ValueOf(c)
	for i := range client.NumMethod() {
		if handle, ok := handleOf(client.Method(i)); ok {
			calls = append(calls, callsOf(client.Type().Method(i).Name, handle)...)
		}
	}
	return calls
}

// handleOf calls a method that returns a handle, and returns false for another method.
func handleOf(m reflect.Value) (handle reflect.Value, ok bool) {
	t := m.Type()
	if t.NumIn() != 0 || t.NumOut() != 1 || t.Out(0).Kind() != reflect.Pointer || t.Out(0).NumMethod() == 0 {
		return reflect.Value{}, false
	}
	return m.Call(nil)[0], true
}

func callsOf(noun string, handle reflect.Value) (calls []publicCall) {
	for i := range handle.NumMethod() {
		name := noun + "." + handle.Type().Method(i).Name
		m := handle.Method(i)
		inner, ok := handleOf(m)
		if ok {
			calls = append(calls, callsOf(name, inner)...)
			continue
		}
		calls = append(calls, publicCall{name, m})
	}
	return calls
}

// rejectionOf makes a call that berth does not serve, with plain arguments, and returns the outcome with its
// reason. An answer that is no rejection fails the test.
func rejectionOf(t *testing.T, call publicCall) string {
	t.Helper()
	failure := callPlainly(call.method)
	reason := reasonOf(call.name)
	if reason == "" {
		t.Errorf("%s works in no test, and withoutRoute has no reason for it: %s", call.name, failure)
	}
	switch {
	case strings.Contains(failure, "there is no route"),
		strings.Contains(failure, "does not allow the method"):
		return "no route: " + reason
	case strings.Contains(failure, "Nomad Enterprise only endpoint"),
		strings.Contains(failure, "response code: 412"),
		strings.Contains(failure, "response code: 400"),
		strings.Contains(failure, "leave AccessorID out for a new one"),
		slices.Contains(rejectedByClient, call.name):
		return "rejected: " + reason
	}
	t.Errorf("%s is not rejected: %q", call.name, failure)
	return "fails"
}

// rejectedByClient lists calls whose plain arguments the client itself rejects.
var rejectedByClient = []string{
	"ACLOIDC.CompleteAuth",
	"ACLOIDC.GetAuthURL",
	"ACLOIDC.Login",
	"ACLRoles.Create",
	"ACLTokens.Create",
}

// requestsOfCalls returns the request of each call: the last one that it makes of a server whose answers are
// empty, with {id} for each name.
func requestsOfCalls(t *testing.T) map[string]string {
	t.Helper()
	var mu sync.Mutex
	last := ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		last = r.Method + " " + strings.ReplaceAll(r.URL.Path, "/n1", "/{id}")
		w.Header().Set("X-Nomad-Index", "1")
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(srv.Close)
	c, err := public.NewClient(&public.Config{Address: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	requests := map[string]string{}
	for _, call := range publicCalls(c) {
		if call.name == "Nodes.MonitorDrain" || strings.HasPrefix(call.name, "Raw.") {
			continue // they have no request of their own
		}
		mu.Lock()
		last = ""
		mu.Unlock()
		_ = callPlainly(call.method)
		mu.Lock()
		requests[call.name] = last
		mu.Unlock()
	}
	return requests
}

// callPlainly makes a call with plain arguments and returns the first line of its error, "" for none. A call
// that answers by a channel has an error there.
func callPlainly(method reflect.Value) (failure string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var args []reflect.Value
	fixed := method.Type().NumIn()
	if method.Type().IsVariadic() {
		fixed--
	}
	for i := range fixed {
		args = append(args, plainValue(ctx, method.Type().In(i)))
	}
	done := make(chan string, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Sprint("panics: ", p)
			}
		}()
		done <- failureIn(method.Call(args))
	}()
	select {
	case failure = <-done:
	case <-time.After(patience):
		failure = "it does not return"
	}
	return failure
}

// failureIn returns the first line of the error among the results of a call.
func failureIn(results []reflect.Value) string {
	for _, v := range results {
		err, ok := v.Interface().(error)
		if errs, isChannel := v.Interface().(<-chan error); isChannel {
			select {
			case err, ok = <-errs:
			case <-time.After(patience):
			}
		}
		if ok && err != nil {
			return strings.SplitN(err.Error(), "\n", 2)[0]
		}
	}
	return ""
}

// plainValue returns an argument of a type: n1 for each text and in each field that is one.
func plainValue(ctx context.Context, t reflect.Type) reflect.Value {
	switch t {
	case reflect.TypeFor[*public.QueryOptions]():
		return reflect.ValueOf(&public.QueryOptions{})
	case reflect.TypeFor[*public.WriteOptions]():
		return reflect.ValueOf(&public.WriteOptions{})
	case reflect.TypeFor[context.Context]():
		return reflect.ValueOf(ctx)
	case reflect.TypeFor[io.Reader]():
		return reflect.ValueOf(strings.NewReader("n1"))
	case reflect.TypeFor[*public.Job]():
		job := shellJob("n1", "true")
		return reflect.ValueOf(job)
	}
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.String:
		v.SetString("n1")
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).Kind() == reflect.String && v.Field(i).CanSet() {
				v.Field(i).SetString("n1")
			}
		}
	case reflect.Pointer:
		if t.Elem().Kind() == reflect.Struct {
			v.Set(reflect.New(t.Elem()))
			v.Elem().Set(plainValue(ctx, t.Elem()))
		}
	}
	return v
}
