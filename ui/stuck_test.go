package ui

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/api/apitest"
	"berth/api/areas"
	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/opsocket"
	"berth/structs"
)

// visitor follows links and sends forms of the page, and does nothing else.
type visitor struct {
	t    *testing.T
	page http.Handler
	at   string // the path of the view
	body string
}

// visit shows a view.
func (v *visitor) visit(path string) {
	v.t.Helper()
	resp, body := get(v.t, v.page, path)
	if resp.StatusCode != http.StatusOK {
		v.t.Fatalf("%s: got %d: %s", path, resp.StatusCode, body)
	}
	v.at, v.body = path, body
}

var anchor = regexp.MustCompile(`(?s)<a [^>]*href="([^"]*)"[^>]*>([^<]*)</a>`)

// click follows the link with a text.
func (v *visitor) click(text string) {
	v.t.Helper()
	for _, a := range anchor.FindAllStringSubmatch(v.body, -1) {
		if html.UnescapeString(a[2]) == text {
			v.visit(html.UnescapeString(a[1]))
			return
		}
	}
	v.t.Fatalf("%s has no link %q:\n%s", v.at, text, v.body)
}

var input = regexp.MustCompile(`<input type="(hidden|radio)" name="([^"]*)" value="([^"]*)">`)

// confirm sends the form of a confirmation, with the first of its reasons, and follows the answer.
func (v *visitor) confirm() {
	v.t.Helper()
	form := url.Values{}
	for _, in := range input.FindAllStringSubmatch(v.body, -1) {
		if form.Get(in[2]) == "" {
			form.Set(in[2], html.UnescapeString(in[3]))
		}
	}
	resp, body := post(v.t, v.page, actPath, form)
	if resp.StatusCode != http.StatusSeeOther {
		v.t.Fatalf("the action gets %d: %s", resp.StatusCode, body)
	}
	v.visit(resp.Header.Get("Location"))
}

// claimAsWriter claims a volume for an allocation, as its one writer.
func claimAsWriter(s *endpointstest.Server, volume, alloc, node string) {
	c := endpointstest.Claim(volume, alloc)
	c.AccessMode = structs.CSIMultiNodeSingleWriter
	endpointstest.Must(s, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID:   node,
		SecretID: endpointstest.SecretOf(node),
		Claims:   []*structs.CSIClaim{c},
	})
}

// A node with a writer is lost, so the volume is stuck. The page leads by links and buttons alone from what
// is wrong to the volume and its waiting step, to the remedy that the reasons name, and to the new writer.
func TestPage_SolvesAStuckVolumeByClicks(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	volume := endpointstest.Volume("data")
	volume.ExternalID = "ext-data"
	volume.RequestedCapabilities[0].AccessMode = structs.CSIMultiNodeSingleWriter
	endpointstest.Must(s, structs.CSIVolumeRegister, endpointstest.RegisterRequest(volume))
	s.AddAlloc("a1", "n1")
	claimAsWriter(s, "data", "a1", "n1")
	s.SetNodeDown("n1")
	s.LoseAlloc("a1")
	s.Replace("a1", "a2", "n2")
	claimAsWriter(s, "data", "a2", "n2")

	logger := hclog.NewNullLogger()
	agent := &apitest.Agent{SelfIs: &api.AgentSelf{}}
	page := NewHandler(Config{
		API:    api.NewHandler(api.Config{Routes: areas.Routes(), Caller: s.RPC, Agent: agent, Logger: logger}),
		Agent:  "agent-1",
		Logger: logger,
	})
	overSocket := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page.ServeHTTP(w, r.WithContext(opsocket.Mark(r.Context())))
	})

	v := &visitor{t: t, page: overSocket}
	v.visit(Root)
	v.click("A view of their own")
	wants(t, v.body, "berth node confirm-lost")
	if strings.Contains(v.body, "berth node fence") {
		t.Errorf("the page advises a fence without a device:\n%s", v.body)
	}
	if n := strings.Count(v.body, `<a id="problem/ui/volume?`); n != 1 {
		t.Errorf("the volume has %d rows, want 1:\n%s", n, v.body)
	}
	v.click("data")
	wants(t, v.body, "waits here", `aria-current="step"`, "if the machine is off: berth node confirm-lost")
	if strings.Contains(v.body, "Fence, node n1") {
		t.Errorf("the page offers a fence without a device:\n%s", v.body)
	}
	stuck := v.at
	v.click("Confirm that the machine is off, node n1")
	wants(t, v.body, "Volume data of namespace default is released")
	v.confirm()
	if v.at != "/ui/volume?id=data&namespace=default" {
		t.Errorf("the confirmation leads from %s to %s", stuck, v.at)
	}
	if strings.Contains(v.body, "confirm-lost") || strings.Contains(v.body, "allocation a1") {
		t.Errorf("the lost writer has the volume:\n%s", v.body)
	}

	// The plugin detaches and then attaches, and the node of the new writer runs its task.
	for _, call := range []struct{ node, op string }{{"n1", "detach"}, {"n2", "attach"}} {
		endpointstest.MustPropose(s, fsm.AttachmentOutcome, &structs.CSIAttachmentOutcome{
			VolumeID: "data",
			NodeID:   call.node,
			Op:       call.op,
		})
	}
	endpointstest.Must(s, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   "n2",
		SecretID: endpointstest.SecretOf("n2"),
		Allocs: []*structs.AllocClientUpdate{{
			ID:           "a2",
			ClientStatus: structs.AllocRunning,
			TaskStates:   map[string]*structs.TaskState{"t": {State: "running"}},
		}},
	})
	v.visit(v.at)
	wants(t, v.body, ">allocation a2</a>", "running: t running", "volume data waits for nothing")
	if strings.Contains(v.body, "waits here") {
		t.Errorf("a step waits:\n%s", v.body)
	}

	// The machine does not come back, so the node is what is left of the problem.
	v.click("What is wrong now")
	v.click("name-n1")
	v.click("Delete the node")
	v.confirm()
	for _, path := range []string{Root, slowPath} {
		v.visit(path)
		wants(t, v.body, "Nothing is wrong with those that you may read.")
	}
}
