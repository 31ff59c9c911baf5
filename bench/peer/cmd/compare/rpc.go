package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/bench/peer/result"
)

// The ports of the two servers, on loopback.
const (
	peerHTTP, peerRPC, peerSerf    = 24646, 24647, 24648
	berthHTTP, berthRPCp, berthSrf = 24746, 24747, 24748
)

// The work of the RPC rows: the fleet at first, and its allocations and volumes.
const (
	fleet  = 1000
	grown  = 5000
	allocs = 5000
)

// process is a server with the program that loads it.
type process struct {
	cmd  *exec.Cmd
	load []string // program and the flags that every load has
	dir  string
	ops  map[string]op
	runs map[string]sample   // by flags and round
	once map[string]struct{} // set-up that is done
}

// op is one operation as a load program is asked for it.
type op struct {
	flags string
	undo  string // flags that take it back, so that it can be measured again
	times int    // in one round; its sample is of their medians. 0 is 1
}

// sample is what one load came to.
type sample struct{ rate, p99, cpu float64 }

// rpcRows start both servers. Each row's load is run on one and then the other.
func (b *bench) rpcRows() ([]row, func()) {
	dir, err := os.MkdirTemp("", "bench")
	check(err)
	b.peer, b.berth = b.startPeer(dir), b.startBerth(dir)
	stop := func() {
		b.peer.stop()
		b.berth.stop()
		_ = os.RemoveAll(dir)
	}
	setups := []string{"nodes", "volumes", "shared", "allocs"}
	var rows []row
	add := func(name, op string, target, p99 float64, before ...string) {
		get := func(of func(sample) float64) (peer, berth func(*bench) (float64, error)) {
			return func(b *bench) (float64, error) { return b.peer.number(b, op, of, append(setups, before...)) },
				func(b *bench) (float64, error) { return b.berth.number(b, op, of, append(setups, before...)) }
		}
		peer, berth := get(func(s sample) float64 { return s.rate })
		rows = append(rows, row{Row: result.Row{Name: name, Unit: "/s", Scale: 1, Inverse: true, Target: target}, Peer: peer, Berth: berth})
		peer, berth = get(func(s sample) float64 { return s.p99 })
		rows = append(rows, row{Row: result.Row{Name: name + ": p99", Unit: "ms", Scale: 1e3, Target: p99}, Peer: peer, Berth: berth})
		peer, berth = get(func(s sample) float64 { return s.cpu })
		rows = append(rows, row{Row: result.Row{Name: name + ": server CPU", Unit: "us", Scale: 1e6}, Peer: peer, Berth: berth})
	}
	add("write claims on distinct volumes among 10,000, 64 clients", "claimwrite", 10, 10)
	add("get one of 10,000 volumes, 16 clients", "get", 0, 0)
	add("list 10,000 volumes, 1 client", "list", 0, 0)
	add("list 10,000 volumes over HTTP, 1 client", "http", 0, 0)
	add("heartbeats of 1,000 nodes, 64 clients", "heartbeat", 0, 0)
	wanted := func(name string, set func(*result.Row)) {
		for i := range rows {
			if rows[i].Name == name+": server CPU" {
				set(&rows[i].Row)
			}
		}
	}
	add("read claims from 2,000 on one volume, 16 clients", "claimread", 150, 0, "readers")
	add("node fingerprints, fleet of 5,000, 64 clients", "register", 100, 0, "readers", "grow")
	add("the same as berth's nodes send it: what differs", "update", 100, 0, "readers", "grow")
	wanted("write claims on distinct volumes among 10,000, 64 clients", func(r *result.Row) { r.Bound = 60 })
	wanted("list 10,000 volumes, 1 client", func(r *result.Row) { r.Target = 5 })
	wanted("list 10,000 volumes over HTTP, 1 client", func(r *result.Row) { r.Target = 5 })
	return rows, stop
}

func (b *bench) startPeer(dir string) *process {
	config := fmt.Sprintf("name = %q\ndata_dir = %q\nbind_addr = \"127.0.0.1\"\nlog_level = \"ERROR\"\ndisable_update_check = true\n"+
		"ports {\n http = %d\n rpc = %d\n serf = %d\n}\nserver {\n enabled = true\n bootstrap_expect = 1\n min_heartbeat_ttl = \"10h\"\n heartbeat_grace = \"10h\"\n}\nadvertise {\n http = \"127.0.0.1\"\n rpc = \"127.0.0.1\"\n serf = \"127.0.0.1\"\n}\n",
		"bench", filepath.Join(dir, "peer"), peerHTTP, peerRPC, peerSerf)
	p := start(dir, filepath.Join(b.bin, "peer-server"), "peer.hcl", config, peerHTTP)
	file := filepath.Join(dir, "peer-allocs.json")
	p.load = []string{filepath.Join(b.bin, "peer-load"), "-addr", addr(peerRPC), "-http", addr(peerHTTP), "-pids", strconv.Itoa(p.cmd.Process.Pid), "-allocfile", file}
	p.ops = map[string]op{
		"nodes": {flags: fmt.Sprint("-op setup-nodes -c 16 -nodes ", fleet)}, "volumes": {flags: "-op setup-vols -c 8"}, "shared": {flags: "-op setup-sharedvol"},
		"allocs":     {flags: fmt.Sprint("-op setup-allocs -allocs ", allocs)},
		"readers":    {flags: "-op claimread -c 16 -dur 10m -max 2000"},
		"grow":       {flags: fmt.Sprint("-op setup-nodes -c 16 -off ", fleet, " -nodes ", grown)},
		"claimwrite": {flags: "-op claimwrite -c 64 -dur 30s -max 1600 -off WRITE"},
		"claimread":  {flags: "-op claimread -c 16 -dur 12s -max 500 -off READ"},
		"register":   {flags: fmt.Sprint("-op reg -c 64 -dur 15s -max 600 -nodes ", grown)},
		"update":     {flags: fmt.Sprint("-op reg -c 64 -dur 15s -max 600 -nodes ", grown)},
		"get":        {flags: "-op volget -c 16 -dur 5s -max 10000 -vol rand"},
		"list":       {flags: "-op vollist -c 1 -dur 5s -max 20"},
		"http":       {flags: "-op http -c 1 -dur 5s -max 20 -vol /v1/volumes?type=csi"},
		"heartbeat":  {flags: "-op hb -c 64 -dur 5s -max 30000"},
	}
	return p
}

func (b *bench) startBerth(dir string) *process {
	config := fmt.Sprintf("name = %q\ndata_dir = %q\nbind_addr = \"127.0.0.1\"\nlog_level = \"error\"\nports {\n http = %d\n rpc = %d\n serf = %d\n}\n"+
		"server {\n enabled = true\n bootstrap_expect = 1\n heartbeat_ttl = \"10h\"\n heartbeat_grace = \"10h\"\n}\n", "bench", filepath.Join(dir, "berth"), berthHTTP, berthRPCp, berthSrf)
	p := start(dir, filepath.Join(b.bin, "berth"), "berth.hcl", config, berthHTTP)
	file := filepath.Join(dir, "berth-allocs.json")
	p.load = []string{filepath.Join(b.bin, "berth-bench"), "-rpc", addr(berthRPCp), "-http", addr(berthHTTP), "-pid", strconv.Itoa(p.cmd.Process.Pid), "-file", file}
	p.ops = map[string]op{
		"nodes": {flags: fmt.Sprint("-op nodes -c 16 -nodes ", fleet)}, "volumes": {flags: "-op volumes -c 8"}, "shared": {flags: "-op shared"},
		"allocs":     {flags: fmt.Sprint("-op allocs -allocs ", allocs)},
		"readers":    {flags: "-op claimread -c 16 -time 10m -max 2000"},
		"grow":       {flags: fmt.Sprint("-op nodes -c 16 -offset ", fleet, " -nodes ", grown)},
		"claimwrite": {flags: "-op claimwrite -c 64 -time 30s -max 1600 -offset WRITE", undo: "-op release -c 64 -time 30s -max 1600 -offset WRITE", times: 3},
		"claimread":  {flags: "-op claimread -c 16 -time 30s -max 1000 -offset READ", undo: "-op releaseread -c 16 -time 30s -max 1000 -offset READ", times: 3},
		"register":   {flags: fmt.Sprint("-op register -c 64 -time 15s -max 20000 -nodes ", grown)},
		"update":     {flags: fmt.Sprint("-op updatecsi -c 64 -time 15s -max 20000 -nodes ", grown)},
		"get":        {flags: "-op get -c 16 -time 5s -max 30000"},
		"list":       {flags: "-op list -c 1 -time 5s -max 20"},
		"http":       {flags: "-op http -c 1 -time 5s -max 20"},
		"heartbeat":  {flags: "-op heartbeat -c 64 -time 5s -max 100000"},
	}
	return p
}

func addr(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// start runs `program agent -config file` and waits until its HTTP port answers.
func start(dir, program, file, config string, port int) *process {
	path := filepath.Join(dir, file)
	check(os.WriteFile(path, []byte(config), 0o600))
	log, err := os.Create(path + ".log")
	check(err)
	cmd := exec.CommandContext(context.Background(), program, "agent", "-config", path)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = withMe()
	check(cmd.Start())
	p := &process{cmd: cmd, dir: dir, runs: map[string]sample{}, once: map[string]struct{}{}}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if conn, err := net.Dial("tcp", addr(port)); err == nil {
			_ = conn.Close()
			time.Sleep(3 * time.Second) // for the election
			return p
		}
	}
	p.stop()
	check(fmt.Errorf("%s did not come up: see %s.log", program, path))
	return nil
}

// withMe has a process end with this one, however that ends.
func withMe() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// number runs an operation's load, once in each round, after the set-up that it needs.
func (p *process) number(b *bench, name string, of func(sample) float64, setups []string) (float64, error) {
	for _, s := range setups {
		if _, done := p.once[s]; done {
			continue
		}
		p.once[s] = struct{}{}
		if _, err := p.run(b, p.ops[s].flags); err != nil {
			return 0, fmt.Errorf("setting up %s: %w", s, err)
		}
	}
	o := p.ops[name]
	key := fmt.Sprint(o.flags, b.round)
	if _, done := p.runs[key]; !done {
		s, err := p.sample(b, o)
		if err != nil {
			return 0, err
		}
		p.runs[key] = s
	}
	return of(p.runs[key]), nil
}

func (p *process) sample(b *bench, o op) (sample, error) {
	var rate, p99, cpu []float64
	for range max(1, o.times) {
		out, err := p.run(b, o.flags)
		if err != nil {
			return sample{}, err
		}
		fmt.Fprint(os.Stderr, out)
		s, err := parse(out)
		if err != nil {
			return sample{}, err
		}
		rate, p99, cpu = append(rate, s.rate), append(p99, s.p99), append(cpu, s.cpu)
		if o.undo == "" {
			continue
		}
		if _, err := p.run(b, o.undo); err != nil {
			return sample{}, err
		}
	}
	return sample{result.Median(rate), result.Median(p99), result.Median(cpu)}, nil
}

// run runs the load program. WRITE and READ are where this round's writers and readers begin: none comes twice.
func (p *process) run(b *bench, flags string) (string, error) {
	flags = strings.NewReplacer("WRITE", strconv.Itoa(b.round%3*1600), "READ", strconv.Itoa(2000+b.round%3*1000)).Replace(flags)
	cmd := exec.Command(p.load[0], append(append([]string{}, p.load[1:]...), strings.Fields(flags)...)...)
	cmd.SysProcAttr = withMe()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}

var (
	rateIn = regexp.MustCompile(`([0-9.]+) op/s|rate=([0-9.]+)`)
	p99In  = regexp.MustCompile(`p99=(\S+)`)
	cpuIn  = regexp.MustCompile(`(?:srvcpu|cpu)=([0-9.]+)us`)
)

// parse reads the line of either load program.
func parse(out string) (s sample, err error) {
	rate, p99, cpu := rateIn.FindStringSubmatch(out), p99In.FindStringSubmatch(out), cpuIn.FindStringSubmatch(out)
	if rate == nil || p99 == nil || cpu == nil {
		return s, fmt.Errorf("not understood: %q", out)
	}
	var errs [3]error
	s.rate, errs[0] = strconv.ParseFloat(rate[1]+rate[2], 64)
	d, e := time.ParseDuration(p99[1])
	s.p99, errs[1] = d.Seconds(), e
	s.cpu, errs[2] = strconv.ParseFloat(cpu[1], 64)
	s.cpu *= 1e-6
	return s, errors.Join(errs[:]...)
}
