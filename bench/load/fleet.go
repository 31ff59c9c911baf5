package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	stdrpc "net/rpc"
	"strings"
	"time"

	"berth/bench/shape"
	"berth/structs"
)

// mostAllocs bounds the allocations of a fleet, one per node and volume: placing them is not measured here.
const mostAllocs = 5000

// fleet has running servers with rows: size nodes with their half of the plugin, as many volumes, and
// allocations with which these are claimed.
type fleet struct {
	*testCluster
	size int
	cfg  *config // the settings of the operations
	work *claimants
	http *http.Client
}

// startFleet starts servers and fills them. filled is the result of the registrations.
func startFleet(ctx context.Context, s servers, size int) (f *fleet, filled *row, err error) {
	c, err := startCluster(ctx, s)
	if err != nil {
		return nil, nil, err
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 1 << 14, DisableCompression: true}
	f = &fleet{
		testCluster: c,
		size:        size,
		cfg: &config{
			nodes:   size,
			volumes: size,
			allocs:  min(size, mostAllocs),
		},
		http: &http.Client{Timeout: time.Minute, Transport: transport},
	}
	filled, err = f.fill()
	if err != nil {
		return nil, nil, errors.Join(err, f.close())
	}
	return f, filled, nil
}

func (f *fleet) close() error {
	f.http.CloseIdleConnections()
	return f.testCluster.close()
}

func (f *fleet) fill() (*row, error) {
	registration := measure{
		names:   []string{"node registers, new to the servers"},
		clients: 64,
		of:      identical(registerNodes),
	}
	nodes, err := f.measure(registration, bound{time.Hour, 0})
	if err != nil {
		return nil, err
	}
	for _, what := range []preparation{registerVolumes, registerShared} {
		volumes := measure{
			names:   []string{"volumes"},
			clients: 8,
			of:      identical(what),
		}
		if _, err := f.measure(volumes, bound{time.Hour, 0}); err != nil {
			return nil, err
		}
	}
	allocs, err := placeAllocs(f.agents[0].dialer, f.agents[0].rpc, f.cfg.allocs)
	f.work = newClaimants(allocs, f.size)
	return nodes[0], err
}

// measure is one line of the list of measurements, or one for each kind of operation in it.
type measure struct {
	names   []string
	clients int // at most: a fleet has no more of them than nodes
	of      clientsOf
}

// clientsOf makes the clients of a measurement, one for each connection.
type clientsOf func(f *fleet, conns []*stdrpc.Client) ([]client, error)

// httpRequest makes the n-th request of a load over HTTP.
type httpRequest func(f *fleet, n int) (*http.Request, error)

// identical makes clients with the same operation over RPC.
func identical(prepare preparation) clientsOf {
	return func(f *fleet, conns []*stdrpc.Client) ([]client, error) {
		op, err := prepare(f.cfg)
		return identicalClients(conns, op), err
	}
}

// measures has all measurements in the order of the table.
var measures = []measure{
	{[]string{"node registers again, changed"}, 64, identical(registerAgain)},
	{[]string{"node sends what changed"}, 64, identical(updateCSI)},
	{[]string{"heartbeat"}, 64, identical(heartbeat)},
	{[]string{"write claim", "release of a write claim"}, 64, claimAndRelease(structs.ClaimWrite)},
	{[]string{"read claim of one volume", "release of a read claim"}, 64, claimAndRelease(structs.ClaimRead)},
	{[]string{"get a volume"}, 16, identical(get)},
	{[]string{"get a volume, stale, at any server"}, 16, identical(staleGet)},
	{[]string{"list 100 volumes of all"}, 4, identical(list(100))},
	{[]string{"list all volumes"}, 1, identical(list(0))},
	{[]string{"HTTP: get a volume"}, 16, overHTTP(getVolumeOverHTTP)},
	{[]string{"HTTP: list 100 nodes of all"}, 4, overHTTP(getPath("/v1/nodes?per_page=100"))},
	{[]string{"HTTP: list all volumes"}, 1, overHTTP(getPath("/v1/volumes?type=csi"))},
	{[]string{"HTTP: a node's eligibility changes"}, 16, overHTTP(toggleEligibility)},
	{[]string{"HTTP: register a volume again, changed"}, 16, overHTTP(registerVolumeAgain)},
}

func getPath(path string) httpRequest {
	return func(*fleet, int) (*http.Request, error) {
		return http.NewRequest(http.MethodGet, path, nil)
	}
}

func getVolumeOverHTTP(f *fleet, n int) (*http.Request, error) {
	path := "/v1/volume/csi/" + shape.VolumeID(n%f.size)
	return http.NewRequest(http.MethodGet, path, nil)
}

// toggleEligibility makes all nodes ineligible, one after the other, then all eligible, and so on.
func toggleEligibility(f *fleet, n int) (*http.Request, error) {
	return putEligibility(n%f.size, n/f.size%2 == 1)
}

func registerVolumeAgain(f *fleet, n int) (*http.Request, error) {
	return putVolume(n%f.size, n)
}

// claimAndRelease returns clients that divide the allocations among them. Each claims with all of its own,
// one after the other, then releases all of them, and so on.
func claimAndRelease(mode string) clientsOf {
	return func(f *fleet, conns []*stdrpc.Client) (all []client, err error) {
		for i, conn := range conns {
			n, releasing := i, 0
			all = append(all, func(int) (int, error) {
				if n >= len(f.work.allocs) {
					n, releasing = i, 1-releasing
				}
				a, volume, err := f.work.target(f.cfg, n, mode)
				if err != nil {
					return releasing, err
				}
				n += len(conns)
				if releasing == 1 {
					return 1, call(conn, structs.CSIVolumeUnpublish, f.work.releaseRequest(a, volume))
				}
				return 0, call(conn, structs.CSIVolumeClaim, f.work.claimRequest(a, volume, mode))
			})
		}
		return all, nil
	}
}

// overHTTP returns clients that send requests to the servers in turn. The RPC connections stay idle.
func overHTTP(request httpRequest) clientsOf {
	return func(f *fleet, conns []*stdrpc.Client) (all []client, err error) {
		for i := range conns {
			at := f.agents[i%len(f.agents)].http
			all = append(all, func(n int) (int, error) {
				req, err := request(f, n)
				if err != nil {
					return 0, err
				}
				req.URL.Scheme = "http"
				req.URL.Host = at
				return 0, f.send(req)
			})
		}
		return all, nil
	}
}

// send sends a request and returns an error if the answer is one.
func (f *fleet) send(req *http.Request) error {
	resp, err := f.http.Do(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return errors.Join(fmt.Errorf("answered %s: %s", resp.Status, text),
			resp.Body.Close())
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// putVolume registers volume i with its own context.
func putVolume(i, rev int) (*http.Request, error) {
	v := shape.Volume(shape.VolumeID(i), i)
	v.Context["rev"] = fmt.Sprint(time.Now().Unix(), " ", rev)
	body, err := json.Marshal(struct{ Volumes []*structs.CSIVolume }{[]*structs.CSIVolume{v}})
	if err != nil {
		return nil, err
	}
	return http.NewRequest(http.MethodPut, "/v1/volume/csi/"+v.ID,
		strings.NewReader(string(body)))
}

// putEligibility sets whether a node may get allocations.
func putEligibility(i int, may bool) (*http.Request, error) {
	id := shape.UUID("node", i)
	eligibility := structs.NodeIneligible
	if may {
		eligibility = structs.NodeEligible
	}
	body := fmt.Sprintf(`{"NodeID": %q, "Eligibility": %q}`, id, eligibility)
	return http.NewRequest(http.MethodPut, "/v1/node/"+id+"/eligibility", strings.NewReader(body))
}
