package ui

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// pluginJob runs the plugin of test/shelf, which attaches volumes, on each node.
const pluginJob = `job "shelf" {
  type = "system"
  group "plugin" {
    task "driver" {
      driver = "raw_exec"
      config {
        command = %q
        args    = ["shelf", "-root", %q, "-half", "monolith", "-node", "${node.unique.name}",
          "-endpoint", "${CSI_ENDPOINT}"]
      }
      csi_plugin {
        id   = "shelf"
        type = "monolith"
      }
    }
  }
}
`

// stuckVolume is a directory of the plugin: its name says so.
const stuckVolume = `id        = "dir-data"
name      = "dir-data"
type      = "csi"
plugin_id = "shelf"
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`

// writerJob writes its allocation on the volume, and prints all that have written.
const writerJob = `job "writer" {
  update {
    min_healthy_time = "0s"
  }
  group "writer" {
    volume "data" {
      type            = "csi"
      source          = "dir-data"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "write" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $BERTH_ALLOC_ID >> /data/writers && cat /data/writers && exec sleep 86400"]
      }
      volume_mount {
        volume      = "data"
        destination = "/data"
      }
    }
  }
}
`

// alloc is an allocation, as the command line shows it.
type alloc struct{ ID, NodeName string }

// writer returns the only allocation of the writer.
func writer(server berth) alloc {
	server.t.Helper()
	var all []alloc
	text := server.run("job", "allocs", "-json", "writer")
	err := json.Unmarshal([]byte(text), &all)
	if err != nil || len(all) != 1 {
		server.t.Fatalf("the writer has the allocations %s: %v", text, err)
	}
	return all[0]
}

// Expressions about what a view shows.
const (
	nothingWrong = `[...document.querySelectorAll(".problem-list")].filter(
		list => list.innerText.includes("Nothing is wrong with those that you may read.")).length === 2`
	marked = `document.querySelector('.step[aria-current="step"]')`
)

// problem is the row of a problem in the first view.
func problem(kind, name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll(".problem-list tbody tr")].find(row =>
		row.cells[0].innerText === %q && row.cells[1].innerText === %q)`, kind, name)
}

// link is the first link whose text begins with some words.
func link(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("a")].find(
		a => a.textContent.trim().startsWith(%q))`, text)
}

// clickOn is the click of a user on an element: a mouse has to hit it where it is.
const clickOn = `(element => {
	element.scrollIntoView({block: "center", behavior: "instant"});
	const box = element.getClientRects()[0];
	const hit = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
	if (!element.contains(hit)) {
		throw new Error("a mouse does not reach " + element.outerHTML);
	}
	element.click();
})(%s)`

// choose waits for an element, and clicks it. It leads to another page.
func (b *browser) choose(what, element string) {
	b.t.Helper()
	b.await(what, "!!"+element)
	b.follow(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(clickOn, element)))
}

// TestPage_SolvesAStuckVolume has the power of the node fail that runs a writer. In the page alone, and there
// by clicks alone, it goes from what is wrong to the reason, to the remedy, to the new writer, and to a
// cluster in which nothing is wrong.
func TestPage_SolvesAStuckVolume(t *testing.T) {
	s := newSite(t)
	addr := forward(t, s.socket("s0"))
	b := openBrowser(t, addr)
	s.fixture = buildFixture(t)
	server, nodes := startCluster(s, b, addr)

	server.run("job", "run", s.write("shelf.hcl", fmt.Sprintf(pluginJob, s.fixture, s.shelf())))
	server.run("volume", "create", s.write("volume.hcl", stuckVolume))
	server.run("job", "run", s.write("writer.hcl", writerJob))
	first := writer(server)
	readWriters(b, addr, first.ID)
	b.do(chromedp.Navigate(addr + "/ui/"))
	b.await("nothing is wrong before", nothingWrong)

	lost, left := nodes[0], nodes[1]
	if first.NodeName == left.name {
		lost, left = left, lost
	}
	lost.powerOff()
	findReason(b, lost.name)
	confirmLoss(b)
	second := readNewChain(b, left.name, first.ID)

	b.choose("the log of the new writer", link("Log of write"))
	b.await("the new writer has what the first one wrote", fmt.Sprintf(
		`document.getElementById("log").textContent.startsWith(%q) &&
		document.getElementById("log").textContent.includes("\n" + %q)`, first.ID, second))
	deleteNode(b, lost.name)
	b.checkFaults("the whole way")
}

// startCluster starts a server and two nodes, and sees in the page that they are ready.
func startCluster(s *site, b *browser, addr string) (berth, []*machine) {
	s.t.Helper()
	server := berth{t: s.t, bin: s.program, addr: s.powerOn("s0", "-server").addr}
	b.do(chromedp.Navigate(addr + "/ui/topology"))
	b.await("the server leads", shows("alive, leads"))
	rpc := strings.TrimSpace(server.run("server", "members", "-t", "{{(index .Members 0).Tags.rpc_addr}}"))
	nodes := []*machine{
		s.powerOn("n0", "-client", "-servers", rpc),
		s.powerOn("n1", "-client", "-servers", rpc),
	}
	b.do(chromedp.Navigate(addr + "/ui/nodes"))
	b.await("both nodes are ready", `(rows => rows.length === 2 &&
		rows.every(row => row.innerText.includes("ready")))([...document.querySelectorAll("#rows tbody tr")])`)
	return server, nodes
}

// readWriters follows the log of an allocation until it has written.
func readWriters(b *browser, addr, id string) {
	b.t.Helper()
	b.do(chromedp.Navigate(addr + "/ui/allocation?id=" + id))
	b.choose("the log of the writer", link("Log of write"))
	b.await("the writer has written", fmt.Sprintf(`document.getElementById("log").textContent.includes(%q)`, id))
}

// findReason goes from the first view, which is open, to the step of the volume that waits.
func findReason(b *browser, node string) {
	b.t.Helper()
	row := problem("node", node)
	b.await("the node is named", row+`?.innerText.includes("it holds 1 claim on volumes")`)
	b.await("the job is named, with the remedy",
		problem("job", "writer")+`?.innerText.includes("berth node confirm-lost")`)
	b.checkLooks("what is wrong")
	b.choose("the node", row+`?.querySelector("a")`)
	b.await("the volume that it holds", "!!"+link("dir-data"))
	b.checkLooks("the lost node")
	b.choose("the volume that it holds", link("dir-data"))
	b.await("the step that waits is marked, with its reason",
		marked+fmt.Sprintf("?.innerText.includes(%q)", "node "+node+" is down and has not released it"))
	b.await("the reasons name the remedy", shows("if the machine is off: berth node confirm-lost"))
	b.screenshot("stuck-light")
	b.checkLooks("the stuck volume")
}

// confirmLoss says that the machine is off, as the reasons advise.
func confirmLoss(b *browser) {
	b.t.Helper()
	b.choose("the remedy", link("Confirm that the machine is off, node "))
	b.await("the page says what the word releases", shows("Volume dir-data of namespace default is released"))
	b.screenshot("confirm-lost-light")
	b.checkLooks("the form to confirm a lost node")
	reason := `document.querySelector('input[name=reason][value="I have seen that it is off"]')`
	eval[bool](b, fmt.Sprintf(clickOn, reason)+" || true")
	b.choose("the button", `document.querySelector("button.act")`)
}

// readNewChain sees the steps of the new writer, and goes to its allocation. It returns its ID.
func readNewChain(b *browser, node, former string) (id string) {
	b.t.Helper()
	b.await("the picture of the volume", `document.querySelector("h1").textContent === "Volume dir-data"`)
	b.await("one chain, to the tasks that run", fmt.Sprintf(`%s === null &&
		document.querySelectorAll(".chains > li").length === 1 &&
		document.querySelectorAll(".chain .step.done").length === 6 &&
		document.querySelector(".chain").innerText.includes("running: write running") &&
		document.querySelector(".chain").innerText.includes(%q)`, marked, node+" is ready"))
	b.choose("the allocation", `document.querySelector(".claim a")`)
	b.await("the view of the allocation", "location.pathname === '/ui/allocation'")
	id = eval[string](b, "new URLSearchParams(location.search).get('id')")
	if id == "" || strings.HasPrefix(former, id) {
		b.t.Fatalf("the new writer is %q, the lost one was %s", id, former)
	}
	return id
}

// deleteNode deletes the row of the machine that does not come back, after which nothing is wrong.
func deleteNode(b *browser, node string) {
	b.t.Helper()
	b.choose("what is wrong", link("What is wrong now"))
	b.choose("the node", problem("node", node)+`?.querySelector("a")`)
	b.choose("the button of the node", link("Delete the node"))
	b.choose("the button", `document.querySelector("button.act")`)
	b.await("nothing is wrong", nothingWrong)
}
