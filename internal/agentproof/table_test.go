package agentproof

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// The table has every way in which an agent or a server may turn up, with the words of the pages and the
// answers of the rules. The tests run its rows, and compare them with docs/operations/lost-nodes.md and
// docs/operations/servers.md.

// situation is a row of the table.
type situation struct {
	name string
	// free and full are for a node without and with volumes that the servers have not released.
	free, full cell
	agents     []agentCase
	server     serverCell
	servers    []serverCase
	todo       string // the last cell
}

// cell is the answer to an agent in one row, with further words.
type cell struct {
	answer
	more string
}

// The answers of the servers to an agent that has the ID of a node.
const (
	takes   = "takes it"  // it has the node, with its volumes
	waits   = "waits"     // for the end of a lease, and asks again
	asksFor = "no second" // it is a second agent: it waits for the end of the lease, or for a proof
	later   = "not now"   // one of these two
)

// answer is what the servers answer to an agent. "" is another row.
type answer struct {
	words string
	lives string // while the lease of the first agent runs
	grace string // while the node is not down yet
	down  string
}

var (
	atOnce     = answer{"at once", takes, takes, takes}
	afterLease = answer{"when the lease has ended", waits, takes, takes}
	whenDown   = answer{"when the node is down", later, asksFor, takes}
	needsProof = answer{"a second agent: needs a proof", later, asksFor, asksFor}
	whileLives = answer{"a second agent, as long as the first one lives", later, asksFor, ""}
	afterProof = answer{"at once", "", "", takes}
)

// agentCase is an agent that turns up, and what the servers know of its node.
type agentCase struct {
	name  string
	row   *structs.Node // nil: there is none
	given *structs.AgentProof
	// noLast: the leader has changed, so it knows no proof. hasLast: it has not. Both are tried without them.
	noLast, hasLast bool
	ask             bool
	leaderBoot      string
	// free and full are for an agent whose answer is another than that of its row. The cell has words for it.
	free, full *answer
}

// serverCell is the answer to a server in one row, with further words.
type serverCell struct {
	serverAnswer
	more string
}

// serverAnswer is what becomes of a server that turns up with an ID that is known.
type serverAnswer struct {
	words  string
	member bool // the others take it into the gossip
	votes  bool // it may vote and stand for election from its start on
	counts bool // the others count its vote
}

var (
	votesAtOnce = serverAnswer{"votes at once", true, true, true}
	isRejected  = serverAnswer{"is rejected", false, false, true}
	isAddedAnew = serverAnswer{
		"joins without a vote, until a leader that was elected without it has added it anew",
		true, false, true,
	}
	hasLost = serverAnswer{
		"its vote does not count, until a leader has added it anew", true, true, false,
	}
	isNew    = serverAnswer{"gets a vote as a new server does", true, true, true}
	noServer = serverAnswer{words: "-"}
)

// serverCase is a server that turns up, and what the others know of the one with its ID.
type serverCase struct {
	name  string
	known *KnownServer // nil: there is none
	given Server
	start Start
	// last is the last entry of its log, and acknowledged the one of which the others know.
	last, acknowledged uint64
	// other is another answer than that of its row, for which the cell has words.
	other *serverAnswer
}

// The agent of node "n" ran on machine m1 in boot b1 when it last registered. It drew the mark "claim" for
// its first claim, after the mark "boot". The nonces are k, then l.
const (
	m1 = structs.MachineID("product:1 machine:1")
	m2 = structs.MachineID("product:2 machine:1") // the disk brought its machine-id along
)

var (
	claimed  = []string{"claim", "boot"}
	rebooted = []string{"boot2", "claim", "boot"}
	early    = []string{"boot2", "boot"} // from before the first claim
)

// row returns the node as the log has it, with a change.
func row(changes ...func(*structs.Node)) *structs.Node {
	n := &structs.Node{
		ID: "n", Status: structs.NodeReady, BootID: "b1", Machine: m1, Store: "8:1", Mark: "claim",
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

func machine(m structs.MachineID) func(*structs.Node) { return func(n *structs.Node) { n.Machine = m } }

// beforeReboot is the row of an earlier boot.
func beforeReboot(n *structs.Node) {
	n.BootID = "b0"
	n.Mark = "boot"
}

// takenByCopy is the row after a copy has got the node.
func takenByCopy(n *structs.Node) {
	n.Machine = m2
	n.BootID = "b9"
	n.Mark = "boot9"
}

// agentOn returns the proof of an agent with a nonce and the one before it.
func agentOn(machine structs.MachineID, boot, nonce, previous string, marks []string) *structs.AgentProof {
	return &structs.AgentProof{
		BootID: boot, Machine: machine, Store: "8:1", Nonce: nonce, Previous: previous, Marks: marks,
	}
}

// withoutRecords is the proof of an agent that begins without records.
func withoutRecords(machine structs.MachineID, boot, store string) *structs.AgentProof {
	p := agentOn(machine, boot, "x", "", []string{"new"})
	p.Store = store
	return p
}

// next is the proof of an agent with the newest state of the disk.
func next(machine structs.MachineID, boot string, marks []string) *structs.AgentProof {
	return agentOn(machine, boot, "l", "k", marks)
}

// older is that of an agent with an earlier state.
func older(machine structs.MachineID, boot string, marks []string) *structs.AgentProof {
	return agentOn(machine, boot, "c", "b", marks)
}

// The server "s1" ran on machine m1 at address a1, and had acknowledged the entry 9.
const (
	stored    = 9
	testWait  = 5 * time.Minute
	lookedFor = time.Minute // for which a server has failed that is still looked for
)

// first is the server that the others know by the ID.
func first(change func(*KnownServer)) *KnownServer {
	k := &KnownServer{Server: Server{Name: "s1", Address: "a1", Machine: m1}}
	change(k)
	return k
}

func alive(k *KnownServer)   { k.Alive = true }
func failed(k *KnownServer)  { k.Silent = lookedFor }
func gone(k *KnownServer)    { k.Silent = testWait }
func hasLeft(k *KnownServer) { k.Left = true }

// back is a case of a server on its own machine, with its whole log.
func back(name string, known *KnownServer, addr string) serverCase {
	return serverCase{
		name: name, known: known, given: Server{Name: "s1", Address: addr, Machine: m1},
		start: Start{Kept: m1, Now: m1, Voter: true}, last: stored, acknowledged: stored,
	}
}

// copied is a case of a server with the data directory of s1 on machine m2, with its whole log.
func copied(name string, known *KnownServer, as, addr string) serverCase {
	return serverCase{
		name: name, known: known, given: Server{Name: as, Address: addr, Machine: m2, Held: true},
		start: Start{Kept: m1, Now: m2, Voter: true}, last: stored, acknowledged: stored,
	}
}

// forgotten is a case after which nobody knows what the server has acknowledged.
func forgotten(c serverCase) serverCase {
	c.acknowledged = 0
	return c
}

// withLog is a case of a server whose log ends with another entry.
func withLog(c serverCase, last uint64) serverCase {
	c.last = last
	return c
}

func otherwise(c serverCase, a *serverAnswer) serverCase {
	c.other = a
	return c
}

func named(c serverCase, name string) serverCase {
	c.given.Name = name
	return c
}

func startsOn(c serverCase, s Start) serverCase {
	c.start = s
	return c
}

// fresh is a case of a server with an ID that nobody knows.
func fresh(name string) serverCase {
	return startsOn(back(name, nil, "a1"), Start{Now: m1})
}

// afterCopy is a case of the first server after its copy "s9" got its place.
func afterCopy(name string, held bool, other *serverAnswer) serverCase {
	known := &KnownServer{Server: Server{Name: "s9", Address: "a9", Machine: m2, Held: held}, Alive: true}
	return otherwise(back(name, known, "a1"), other)
}

// TestCheck_Table runs the cases of nodes: with and without volumes, with a leader that knows the last proof
// and with one that has just been elected, while the lease runs, in the grace, and when the node is down.
func TestCheck_Table(t *testing.T) {
	for _, s := range situations {
		if len(s.agents) == 0 {
			t.Errorf("%s: no case of a node", s.name)
		}
		for _, a := range s.agents {
			t.Run(s.name+"/"+a.name, func(t *testing.T) {
				a.check(t, choose(a.free, s.free), false)
				a.check(t, choose(a.full, s.full), s.full.answer != afterProof)
			})
		}
	}
}

func choose(own *answer, of cell) answer {
	if own != nil {
		return *own
	}
	return of.answer
}

// check compares the answers to an agent.
func (a agentCase) check(t *testing.T, want answer, volumes bool) {
	t.Helper()
	for _, last := range []bool{false, true} {
		if last && (a.noLast || a.row == nil) || !last && a.hasLast {
			continue
		}
		for _, at := range []struct {
			name, want, status string
			counts             time.Duration
		}{
			{"while the lease runs", want.lives, structs.NodeReady, time.Second},
			{"in the grace", want.grace, structs.NodeReady, 0},
			{"when the node is down", want.down, structs.NodeDown, 0},
		} {
			n := Node{HasVolumes: volumes, AskAfterReboot: a.ask, LeaderBoot: a.leaderBoot}
			if a.row != nil {
				n.Row = a.row.Copy()
				n.Row.Status = at.status
			}
			if last {
				n.Last = &Last{AgentProof: *agentOn(a.row.Machine, "b1", "k", "j", claimed), Counts: at.counts}
			}
			wanted := at.want
			if !last && at.status == structs.NodeReady && at.counts == 0 {
				wanted = want.lives // a new leader cannot tell the grace from the lease
			}
			got, err := answerOf(Check(n, a.given))
			if wanted != "" && got != wanted && !(wanted == later && got != takes) {
				t.Errorf("%s, volumes %v, last proof known %v: %s (%v), want %s",
					at.name, volumes, last, got, err, wanted)
			}
		}
	}
}

// answerOf names the answer that an error is.
func answerOf(err error) (string, error) {
	switch {
	case err == nil:
		return takes, nil
	case structs.CauseOf(err) == structs.CauseSecondAgent:
		return asksFor, err
	}
	return waits, err
}

// TestCheckServer_Table runs the cases of servers.
func TestCheckServer_Table(t *testing.T) {
	for _, s := range slices.Concat(situations, serversAlone) {
		if len(s.servers) == 0 && s.server.serverAnswer != noServer {
			t.Errorf("%s: no case of a server", s.name)
		}
		for _, c := range s.servers {
			t.Run(s.name+"/"+c.name, func(t *testing.T) {
				want := s.server.serverAnswer
				if c.other != nil {
					want = *c.other
				}
				c.check(t, want)
			})
		}
	}
}

// check compares what becomes of a server.
func (c serverCase) check(t *testing.T, want serverAnswer) {
	t.Helper()
	err := CheckServer(c.known, c.given, testWait)
	if (err == nil) != want.member {
		t.Errorf("it is a member: %v (%v), want %v", err == nil, err, want.member)
	}
	if err != nil && structs.CauseOf(err) != structs.CauseSecondAgent {
		t.Errorf("%v has the cause %q", err, structs.CauseOf(err))
	}
	// One that the others reject has no vote that they count, whatever it knows itself.
	if votes := MayVote(c.start); votes != want.votes && (want.member || c.start.Now != c.start.Kept) {
		t.Errorf("it votes: %v, want %v", votes, want.votes)
	}
	if counts := !LacksEntries(c.last, c.acknowledged); counts != want.counts && want.member {
		t.Errorf("its vote counts: %v, want %v", counts, want.counts)
	}
}

// TestTable_IsThatOfThePages compares the rows with both pages.
func TestTable_IsThatOfThePages(t *testing.T) {
	nodes := []string{"what happens", "a node without volumes", "a node with volumes", "a server", "what to do"}
	var rows [][]string
	for _, s := range situations {
		rows = append(rows, []string{
			s.name, s.free.words + s.free.more, s.full.words + s.full.more, s.server.words + s.server.more, s.todo,
		})
	}
	comparePage(t, "lost-nodes.md", nodes, rows)

	rows = nil
	for _, s := range serversAlone {
		rows = append(rows, []string{s.name, s.server.words + s.server.more, s.todo})
	}
	comparePage(t, "servers.md", []string{"what happens", "the server", "what to do"}, rows)
}

// comparePage compares a table of a page of operations with the rows that it must have.
func comparePage(t *testing.T, page string, header []string, rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", page))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i, cells := range append([][]string{header}, rows...) {
		want.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		if i == 0 {
			want.WriteString(strings.Repeat("|---", len(header)) + "|\n")
		}
	}
	_, after, found := strings.Cut(string(text), "| "+strings.Join(header, " | ")+" |\n")
	got, _, _ := strings.Cut(after, "\n\n")
	got = "| " + strings.Join(header, " | ") + " |\n" + got + "\n"
	if !found || got != want.String() {
		t.Errorf("the table of %s is not that of the rows, which is\n%s", page, want.String())
	}
}
