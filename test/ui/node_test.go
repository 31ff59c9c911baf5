package ui

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// idleJob runs a task that does nothing.
const idleJob = `job "idle" {
  update {
    min_healthy_time = "0s"
  }
  group "idle" {
    task "idle" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["86400"]
      }
    }
  }
}
`

// TestPage_OfANodeAlone opens the page of an agent that has no server. It shows the cluster, and acts on it.
func TestPage_OfANodeAlone(t *testing.T) {
	s := newSite(t)
	server := berth{t: t, bin: s.program, addr: s.powerOn("s0", "-server").addr}
	rpc := strings.TrimSpace(server.run("server", "members", "-t", "{{(index .Members 0).Tags.rpc_addr}}"))
	node := s.powerOn("n0", "-client", "-servers", rpc)
	b := openBrowser(t, node.addr)

	b.do(chromedp.Navigate(node.addr + "/ui/nodes"))
	b.await("the page is that of the node", `document.querySelector("header .agent").textContent === "n0"`)
	b.await("the node is ready", shows("n0")+" && "+shows("ready"))
	b.do(chromedp.Navigate(node.addr + "/ui/topology"))
	b.await("the server leads", shows("s0")+" && "+shows("alive, leads"))

	b.do(chromedp.Navigate(node.addr + "/ui/jobs"))
	b.await("the view is live", live)
	server.run("job", "run", s.write("idle.hcl", idleJob))
	b.await("the job of the cluster is shown", row("idle")+`?.innerText.includes("running")`)
	b.do(chromedp.Navigate(node.addr + "/ui/"))
	b.await("nothing is wrong", nothingWrong)

	b.choose("the jobs", link("Jobs"))
	b.choose("the job", row("idle")+`?.querySelector("a")`)
	b.choose("the action", link("Stop"))
	b.await("the page asks first", `document.querySelector("main").innerText.includes("berth job stop idle")`)
	if got := status(server, "idle"); got != "running" {
		t.Errorf("before the button, the job is %s", got)
	}
	b.choose("the button", `document.querySelector("button.act")`)
	b.await("the view of the job", `document.querySelector("h1").textContent === "Job idle"`)
	b.await("the job is dead", `document.querySelector(".properties").innerText.includes("dead")`)
	if got := status(server, "idle"); got != "dead" {
		t.Errorf("after the button, the server says that the job is %s", got)
	}
	b.checkFaults("the page of a node")
}

// live: the view follows the events of the cluster.
const live = `document.getElementById("live").textContent.startsWith("Live")`

// row is the row of a list with a name.
func row(name string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#rows tbody tr")].find(
		row => row.querySelector("th").innerText.trim() === %q)`, name)
}

// status is that of a job, as a server tells it.
func status(server berth, job string) string {
	server.t.Helper()
	return strings.TrimSpace(server.run("job", "status", "-t", "{{.Status}}", job))
}
