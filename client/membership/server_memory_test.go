package membership

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/store"
)

// opened is the memory of one agent.
type opened struct {
	*ServerMemory
	db     *store.DB
	log    bytes.Buffer
	origin ServerOrigin
}

// joined is the origin of the tests that have one alone.
var joined = ServerOrigin{Configured: []string{"s1:1"}, Cluster: "one"}

// remember begins an agent in dir.
func remember(t *testing.T, dir string, origin ServerOrigin) *opened {
	t.Helper()
	db, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	o := &opened{db: db, origin: origin}
	logger := hclog.New(&hclog.LoggerOptions{Output: &o.log})
	o.ServerMemory = RememberServers(db, func() (ServerOrigin, error) { return o.origin, nil }, logger)
	return o
}

// learn notes an answer, and stores it as Run does.
func (o *opened) learn(addrs ...string) {
	o.Note(addrs)
	<-o.due
	o.write()
}

// end ends the agent.
func (o *opened) end(t *testing.T) {
	t.Helper()
	err := o.db.Close()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRecall_ReturnsTheServersOfTheSameOriginAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	origin := ServerOrigin{Configured: []string{"s1:1", "s2:1"}, Cluster: "one"}
	first := remember(t, dir, origin)
	if got := first.Recall(); len(got) > 0 {
		t.Fatalf("a new node recalls %v", got)
	}
	first.learn("s1:1", "s3:1")
	first.learn("s4:1", "s3:1")
	first.end(t)

	for _, c := range []struct {
		name   string
		origin ServerOrigin
		want   []string
	}{
		{"the same", origin, []string{"s3:1", "s4:1"}},
		{"another order", ServerOrigin{[]string{"s2:1", "s1:1"}, "one"}, []string{"s3:1", "s4:1"}},
		{"a server less", ServerOrigin{[]string{"s1:1"}, "one"}, nil},
		{"other servers", ServerOrigin{[]string{"x1:1", "x2:1"}, "one"}, nil},
		{"no servers", ServerOrigin{nil, "one"}, nil},
		{"another cluster at the same addresses", ServerOrigin{[]string{"s1:1", "s2:1"}, "two"}, nil},
		{"no cluster any more", ServerOrigin{[]string{"s1:1", "s2:1"}, ""}, nil},
	} {
		again := remember(t, dir, c.origin)
		if got := again.Recall(); !slices.Equal(got, c.want) {
			t.Errorf("%s: recalled %v, want %v", c.name, got, c.want)
		}
		again.end(t)
	}
}

// The servers of another origin replace those of the first one, also if their addresses are the same.
func TestNote_TakesTheOriginOfTheAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := remember(t, dir, ServerOrigin{Configured: []string{"s1:1"}, Cluster: "one"})
	agent.learn("s3:1")
	agent.origin.Configured = []string{"s2:1"}
	agent.learn("s3:1")
	agent.end(t)
	again := remember(t, dir, agent.origin)
	if got := again.Recall(); !slices.Equal(got, []string{"s3:1"}) {
		t.Errorf("recalled %v", got)
	}
}

// An operator has removed the ID of the cluster, and the agent has still asked its servers once.
func TestNote_StoresNothingOfANodeThatIsToJoinTheNextCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := remember(t, dir, joined)
	agent.learn("s3:1")
	agent.origin.Cluster = ""
	agent.learn("s3:1")
	agent.end(t)
	if got := remember(t, dir, agent.origin).Recall(); len(got) > 0 {
		t.Errorf("recalled %v of the former cluster", got)
	}
}

func TestNote_IsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	long := strings.Repeat("a", maxAddressBytes) + ":1"
	addrs := []string{long, "no-port", "", "s1:1", "s1:1"}
	for i := range 40 {
		addrs = append(addrs, fmt.Sprintf("t%02d:1", i))
	}
	agent := remember(t, dir, joined)
	agent.learn(addrs...)
	agent.end(t)
	got := remember(t, dir, joined).Recall()
	if len(got) != maxRemembered || got[0] != "s1:1" || got[1] != "t00:1" || slices.Contains(got, long) {
		t.Errorf("recalled %v", got)
	}
}

// A node gets an answer every few seconds, for years.
func TestNote_WritesAnotherSetAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := remember(t, dir, joined)
	read := func() []byte {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "client.db"))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	agent.learn("s1:1", "s2:1")
	before := read()
	agent.learn("s2:1", "s1:1")
	agent.Note(nil)
	if len(agent.due) > 0 || !bytes.Equal(read(), before) {
		t.Error("an answer with the same servers, or with none, was written")
	}
	agent.learn("s2:1", "s3:1")
	if bytes.Equal(read(), before) {
		t.Error("an answer with another server was not written")
	}
	agent.end(t)

	again := remember(t, dir, joined)
	before = read()
	again.learn("s3:1", "s2:1")
	if !bytes.Equal(read(), before) {
		t.Error("the next agent has written the same servers again")
	}
}

func TestNote_AFailedWriteIsSaidOnceAndRepeated(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := remember(t, dir, joined)
	whole := agent.ServerMemory.db
	closed := remember(t, t.TempDir(), joined)
	closed.end(t)
	const words = "failed to store the addresses of the servers"

	agent.ServerMemory.db = closed.db
	for range 3 {
		agent.learn("s1:1")
	}
	if got := strings.Count(agent.log.String(), words); got != 1 {
		t.Errorf("said %d times, want once:\n%s", got, &agent.log)
	}
	agent.ServerMemory.db = whole
	agent.learn("s1:1")
	agent.ServerMemory.db = closed.db
	agent.learn("s2:1")
	if got := strings.Count(agent.log.String(), words); got != 2 {
		t.Errorf("said %d times, want once for each of two failures:\n%s", got, &agent.log)
	}
	agent.end(t)
	if got := remember(t, dir, joined).Recall(); !slices.Equal(got, []string{"s1:1"}) {
		t.Errorf("recalled %v, want those of the write that was repeated", got)
	}
}
