package interop

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	public "github.com/hashicorp/nomad/api"
)

// callsGolden lists the calls of the public client with the outcome of each, and their number.
const callsGolden = "testdata/client_calls.txt"

// TestClient_ListsItsCalls makes each call of the public client with plain arguments, and compares the
// outcomes with a list. A call is served if berth has its route. The other tests show that the answers are
// right, and make the calls that have streams for arguments.
func TestClient_ListsItsCalls(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	setAnswers(caller)
	var lines []string
	served := 0
	client := reflect.ValueOf(c)
	for i := range client.NumMethod() {
		m := client.Type().Method(i)
		if m.Type.NumIn() != 1 || m.Type.NumOut() != 1 || m.Type.Out(0).Kind() != reflect.Pointer {
			continue // it returns no handle
		}
		handle := client.Method(i).Call(nil)[0]
		for k := range handle.NumMethod() {
			method := handle.Method(k)
			last := method.Type().NumOut() - 1
			if last < 0 || method.Type().Out(last) != reflect.TypeFor[error]() {
				continue // it makes no request, or has streams
			}
			outcome := outcomeOf(callPlainly(method))
			if outcome == callServed {
				served++
			}
			name := m.Name + "." + handle.Type().Method(k).Name
			if outcome == callWithoutRoute {
				outcome += ": " + reasonOf(name)
				if reasonOf(name) == "" {
					t.Errorf("%s has no route, and withoutRoute no reason for it", name)
				}
			}
			lines = append(lines, name+": "+outcome)
		}
	}
	lines = append(lines, fmt.Sprintf("%d of %d calls are served", served, len(lines)))
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

const (
	// callServed is the outcome of a call that berth has a route for.
	callServed = "served"
	// callWithoutRoute is followed by the reason.
	callWithoutRoute = "no route"
)

// outcomeOf returns the outcome for the text of the error of a call.
func outcomeOf(failure string) string {
	switch {
	case strings.HasPrefix(failure, "not called"):
		return failure
	case strings.HasPrefix(failure, "panics"):
		return "not called: the client panics"
	case strings.Contains(failure, "there is no route"), strings.Contains(failure, "does not allow the method"):
		return callWithoutRoute
	case strings.Contains(failure, "response code: 412"):
		_, reason, _ := strings.Cut(failure, "(")
		return "rejected: " + strings.TrimSuffix(reason, ")")
	case strings.Contains(failure, "cannot specify"):
		return "not called: " + failure
	}
	return callServed
}

// callPlainly makes a call and returns the first line of its error, "" for none.
func callPlainly(method reflect.Value) (outcome string) {
	var args []reflect.Value
	fixed := method.Type().NumIn()
	if method.Type().IsVariadic() {
		fixed--
	}
	for i := range fixed {
		arg, ok := plainValue(method.Type().In(i))
		if !ok {
			return "not called: it has an argument of type " + method.Type().In(i).String()
		}
		args = append(args, arg)
	}
	done := make(chan string, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Sprint("panics: ", p)
			}
		}()
		for _, v := range method.Call(args) {
			if err, ok := v.Interface().(error); ok && err != nil {
				done <- strings.SplitN(err.Error(), "\n", 2)[0]
				return
			}
		}
		done <- ""
	}()
	select {
	case outcome = <-done:
	case <-time.After(patience):
		outcome = "panics: it does not return"
	}
	return outcome
}

// plainValue returns an argument of a type, false if it cannot make one.
func plainValue(t reflect.Type) (reflect.Value, bool) {
	switch t {
	case reflect.TypeFor[*public.QueryOptions](), reflect.TypeFor[*public.WriteOptions]():
		return reflect.Zero(t), true
	case reflect.TypeFor[*public.Job]():
		job := fullJob()
		*job.ID = "web"
		return reflect.ValueOf(job), true
	}
	v := reflect.New(t).Elem()
	switch t.Kind() {
	case reflect.String:
		v.SetString("n1")
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Bool, reflect.Map, reflect.Slice:
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).Kind() == reflect.String && v.Field(i).CanSet() {
				v.Field(i).SetString("n1")
			}
		}
	case reflect.Pointer:
		if t.Elem().Kind() != reflect.Struct {
			return v, true
		}
		inner, _ := plainValue(t.Elem())
		v.Set(reflect.New(t.Elem()))
		v.Elem().Set(inner)
	default:
		return v, false
	}
	return v, true
}
