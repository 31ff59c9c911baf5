package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/rpc"
	"berth/structs"
	"berth/structs/cluster"
)

// agent is one server, a process that this program has started.
type agent struct {
	name            string
	http, rpc, serf string // addresses on loopback
	dialer          rpc.Dialer
	pid             string
	ended           chan struct{} // closed when it has ended
	cmd             *exec.Cmd
	log             string
}

// cluster has running servers and the folder with their data.
type testCluster struct {
	dir    string
	agents []*agent
}

// servers describes the servers of a cluster.
type servers struct {
	program string
	n       int
	on      *unix.CPUSet // their processors, nil for all
	tls     *closed      // nil: they speak plain TCP
	silent  bool         // they keep no events
}

// startCluster starts servers, and waits until they have a leader and know each other. Without an error the
// caller calls close.
func startCluster(ctx context.Context, s servers) (*testCluster, error) {
	dir, err := os.MkdirTemp("", "berth-bench")
	if err != nil {
		return nil, err
	}
	c := &testCluster{dir: dir}
	err = c.start(ctx, s)
	if err != nil {
		err = errors.Join(err, c.close())
		return nil, err
	}
	return c, nil
}

func (c *testCluster) start(ctx context.Context, s servers) error {
	ports, err := freePorts(3 * s.n)
	if err != nil {
		return err
	}
	for i := range s.n {
		at := func(k int) string {
			return net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[3*i+k]))
		}
		c.agents = append(c.agents, &agent{
			name:   fmt.Sprint("s", i+1),
			http:   at(0),
			rpc:    at(1),
			serf:   at(2),
			ended:  make(chan struct{}),
			dialer: s.dialer(),
		})
	}
	for _, a := range c.agents {
		if err := c.run(ctx, a, s); err != nil {
			return err
		}
	}
	return c.await(ctx)
}

// freePorts returns ports without a listener in TCP and UDP.
func freePorts(n int) (ports []int, err error) {
	for len(ports) < n {
		tcp, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer tcp.Close() // all of them at the end, so that each is another one
		addr := tcp.Addr().(*net.TCPAddr)
		udp, err := net.ListenUDP("udp",
			&net.UDPAddr{IP: addr.IP, Port: addr.Port})
		if err != nil {
			continue
		}
		defer udp.Close()
		ports = append(ports, addr.Port)
	}
	return ports, nil
}

// config returns the configuration file of an agent. The lease is long, because the nodes of a load send only
// heartbeats that are measured.
func (c *testCluster) config(a *agent, s servers) string {
	_, http, _ := net.SplitHostPort(a.http)
	_, rpc, _ := net.SplitHostPort(a.rpc)
	_, serf, _ := net.SplitHostPort(a.serf)
	var join []string
	for _, other := range c.agents {
		if other != a { // it would call itself for the members, and wait for the answer
			join = append(join, strconv.Quote(other.serf))
		}
	}
	return fmt.Sprintf("name = %q\ndata_dir = %q\nbind_addr = \"127.0.0.1\"\nlog_level = \"warn\"\nports {\n http = %s\n rpc = %s\n serf = %s\n}\n"+
		"server {\n enabled = true\n bootstrap_expect = %d\n retry_join = [%s]\n retry_interval = \"200ms\"\n heartbeat_ttl = \"10h\"\n heartbeat_grace = \"10h\"\n rpc_max_conns_per_client = 20000\n enable_event_broker = %t\n}\n",
		a.name, filepath.Join(c.dir, a.name), http, rpc, serf, len(c.agents), strings.Join(join, ", "), !s.silent) +
		s.tls.settings()
}

func (c *testCluster) run(ctx context.Context, a *agent, s servers) error {
	file := filepath.Join(c.dir, a.name+".hcl")
	if err := os.WriteFile(file, []byte(c.config(a, s)), 0o600); err != nil {
		return err
	}
	a.log = file + ".log"
	log, err := os.Create(a.log)
	if err != nil {
		return err
	}
	defer log.Close()
	a.cmd = exec.CommandContext(ctx, s.program, "agent", "-config", file)
	a.cmd.Stdout = log
	a.cmd.Stderr = log
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	start := a.cmd.Start
	if s.on != nil {
		start = func() error {
			return runPinned(s.on, a.cmd.Start)
		}
	}
	if err := start(); err != nil {
		return err
	}
	a.pid = strconv.Itoa(a.cmd.Process.Pid)
	go func() {
		defer close(a.ended)
		_ = a.cmd.Wait() // the error of a killed process says nothing
	}()
	return nil
}

// close ends the servers, waits for them, and removes their data.
func (c *testCluster) close() error {
	for _, a := range c.agents {
		if a.pid != "" {
			_ = a.cmd.Process.Kill() // an error means that it has ended
			<-a.ended
		}
	}
	return os.RemoveAll(c.dir)
}

// patience bounds the time until the servers have a leader.
const patience = 60 * time.Second

func (c *testCluster) await(ctx context.Context) error {
	var last error
	end := time.Now().Add(patience)
	for ; time.Now().Before(end) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		last = c.ready()
		if last == nil {
			return nil
		}
		for _, a := range c.agents {
			select {
			case <-a.ended:
				text, _ := os.ReadFile(a.log)
				return fmt.Errorf("server %s ended: %s", a.name, text)
			default:
			}
		}
	}
	return errors.Join(fmt.Errorf("%d servers found no leader: %w", len(c.agents), last), ctx.Err())
}

// ready returns nil if every server knows the same leader and all other servers.
func (c *testCluster) ready() error {
	leader := ""
	for _, a := range c.agents {
		l, peers, err := a.status()
		if err != nil {
			return err
		}
		if l == "" || peers != len(c.agents) || leader != "" && leader != l {
			return fmt.Errorf("%s knows of %d servers and the leader %q", a.name, peers, l)
		}
		leader = l
	}
	return nil
}

func (a *agent) status() (leader string, peers int, err error) {
	client, err := dial(a.dialer, a.rpc)
	if err != nil {
		return "", 0, err
	}
	defer client.Close()
	var l cluster.StatusLeaderResponse
	var p cluster.StatusPeersResponse
	if err := client.Call(cluster.StatusLeader.Name, &structs.QueryRequest{}, &l); err != nil {
		return "", 0, err
	}
	err = client.Call(cluster.StatusPeers.Name, &structs.QueryRequest{}, &p)
	return l.Leader, len(p.Peers), err
}

// leader returns the number of the leading server.
func (c *testCluster) leader() (int, error) {
	for i, a := range c.agents {
		if l, _, err := a.status(); err == nil && l == a.rpc {
			return i, nil
		}
	}
	return 0, errors.New("no server leads")
}

func (c *testCluster) addresses() (rpc []string) {
	for _, a := range c.agents {
		rpc = append(rpc, a.rpc)
	}
	return rpc
}

// usage returns the usage of the servers so far.
func (c *testCluster) usage() usage {
	u := usage{written: diskOf(c.dir)}
	for _, a := range c.agents {
		u.cpu = append(u.cpu, cpuOf(a.pid))
	}
	return u
}
