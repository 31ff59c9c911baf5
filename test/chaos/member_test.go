package chaos

import (
	"bufio"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/api"
	"berth/test/guarantees"
)

// member is a machine with an agent.
type member struct {
	w      *world
	name   string
	number int
	server bool
	addr   string // of its network interface
	dir    string
	clock  time.Duration // by which its wall clock is wrong while no fault steps it
	args   []string      // of its agent
	client *api.Client   // of its agent, with all rights

	operator *api.Client // of its agent, with the rights of those who operate

	mu    sync.Mutex
	boots int
	first *exec.Cmd // the first process; nil: the machine is off
	input io.WriteCloser
	agent int           // its pid in the namespace of the world; 0: it has ended
	ended chan struct{} // closed when that agent has ended

	busy chan struct{} // holds a token while a fault lasts
	// cutPair: the fault is that the leader alone is out of reach.
	cutPair atomic.Bool
	mayEnd  atomic.Bool // a fault lasts that an agent may end by itself for, or the world ends it
}

// path is a path in the directory of the member. Its "data" is the disk of the machine.
func (m *member) path(elem ...string) string {
	return filepath.Join(append([]string{m.dir}, elem...)...)
}

// hardware is a number of 48 bits that no other machine has. That of a copied disk is another machine.
func (m *member) hardware() uint64 {
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, m.w.seed, " ", m.name)
	return sum.Sum64() & (1<<48 - 1)
}

// powerOn starts the machine and its agent.
func (m *member) powerOn() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first != nil {
		return nil
	}
	m.boots++
	id := fmt.Sprintf("%08x-0000-4000-8000-%012x\n", m.boots, m.hardware())
	bootID := m.path("boot_id")
	if err := os.WriteFile(bootID, []byte(id), 0o444); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", append([]string{"init", bootID, m.path("agent.log")}, m.args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
			unix.CLONE_NEWUTS,
		Setsid: true,
	}
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(output)
	if !lines.Scan() || lines.Text() != "ready" {
		return fmt.Errorf("%s does not start", m.name)
	}
	m.first = cmd
	m.input = input
	if err := m.connect(); err != nil {
		return err
	}
	table := filepath.Join("..", "proc", strconv.Itoa(cmd.Process.Pid), "mountinfo")
	if err := os.Symlink(table, m.w.machine(m)); err != nil {
		return err
	}
	go m.follow(cmd, lines)
	return m.startAgentLocked()
}

// follow reads of the agent of a machine until the machine is off.
func (m *member) follow(cmd *exec.Cmd, lines *bufio.Scanner) {
	for lines.Scan() {
		word, number, _ := strings.Cut(lines.Text(), " ")
		m.mu.Lock()
		if m.first == cmd {
			switch word {
			case "agent":
				inner, _ := strconv.Atoi(number)
				m.agent = outerPID(cmd.Process.Pid, inner)
			case "ended":
				if !m.mayEnd.Load() {
					m.w.violate(guarantees.NoCrash, "the agent of %s ended by itself: status %s", m.name, number)
				}
				m.agentEndedLocked()
			}
		}
		m.mu.Unlock()
	}
}

func (m *member) agentEndedLocked() {
	if m.ended != nil {
		close(m.ended)
	}
	m.ended = nil
	m.agent = 0
}

// outerPID returns the pid of a child of a first process by its pid in the namespace of that process.
func outerPID(first, inner int) int {
	for _, p := range processTable() {
		if p.parent == first && p.inner == inner {
			return p.pid
		}
	}
	return 0
}

// startAgent starts the agent, if the machine is on and has none.
func (m *member) startAgent() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first == nil || m.ended != nil {
		return nil
	}
	return m.startAgentLocked()
}

func (m *member) startAgentLocked() error {
	m.ended = make(chan struct{})
	_, err := io.WriteString(m.input, "start\n")
	return err
}

// powerOff ends all processes of the machine, and its mounts with them.
func (m *member) powerOff() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first == nil {
		return
	}
	_ = m.first.Process.Kill()
	_ = m.first.Wait() // until all processes of its namespace have ended
	_ = os.Remove(m.w.machine(m))
	m.first = nil
	m.agentEndedLocked()
	if err := removeCgroups(m.cgroup()); err != nil {
		m.w.violate(guarantees.NothingLeft, "%s was switched off: %v", m.name, err)
	}
}

// cgroup is the parent of the cgroups of its tasks.
func (m *member) cgroup() string {
	return filepath.Base(m.w.dir) + "-" + m.name
}

// boot returns the number of the boot, and the pid of the first process, 0 if the machine is off.
func (m *member) boot() (number, first int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first == nil {
		return m.boots, 0
	}
	return m.boots, m.first.Process.Pid
}

// running returns the pid of the agent and a channel that is closed at its end. The pid is 0 if none runs.
func (m *member) running() (pid int, ended <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.agent, m.ended
}

// killAgent ends the agent as a crash does, and waits for its end.
func (m *member) killAgent() error {
	pid, ended := m.running()
	if pid == 0 {
		return errors.New("it has no agent")
	}
	m.mayEnd.Store(true)
	defer m.mayEnd.Store(false)
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return err
	}
	<-ended
	return nil
}

// process is one of the table of processes.
type process struct {
	pid, parent int
	inner       int // its pid in its own namespace
	args        []string
}

// processTable lists the processes, without those that have ended.
func processTable() (all []process) {
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		fields := map[string][]string{}
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			fields[name] = strings.Fields(value)
		}
		ids := fields["NSpid"]
		if len(ids) == 0 || fields["State"][0] == "Z" {
			continue
		}
		var p process
		p.pid, _ = strconv.Atoi(ids[0])
		p.inner, _ = strconv.Atoi(ids[len(ids)-1])
		p.parent, _ = strconv.Atoi(fields["PPid"][0])
		cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		p.args = strings.Split(strings.TrimRight(string(cmdline), "\x00"), "\x00")
		all = append(all, p)
	}
	return all
}

// processes lists the processes of the machine besides the first.
func (m *member) processes() (found []process) {
	_, first := m.boot()
	if first == 0 {
		return nil
	}
	table := processTable()
	inside := map[int]bool{first: true}
	for grown := true; grown; {
		grown = false
		for _, p := range table {
			if inside[p.parent] && !inside[p.pid] {
				inside[p.pid] = true
				grown = true
				found = append(found, p)
			}
		}
	}
	return found
}

// await repeats a check until it succeeds or the time is over.
func await(most time.Duration, check func() error) (err error) {
	for limit := time.Now().Add(most); time.Now().Before(limit); time.Sleep(200 * time.Millisecond) {
		err = check()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("not within %s: %w", most, err)
}
