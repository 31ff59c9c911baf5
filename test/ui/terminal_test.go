package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// shellJob runs a task in which the test runs commands.
const shellJob = `job "shell" {
  update {
    min_healthy_time = "0s"
  }
  group "shell" {
    task "shell" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args    = ["86400"]
      }
    }
  }
}
`

const (
	// screen is the text that the terminal shows, with a line for each row.
	screen = `[...document.querySelectorAll('.xterm-rows > div')].map(r => r.textContent).join('\n')`
	// execState says how the command does.
	execState = `document.getElementById('exec-state').textContent`
	// inTerminal: the terminal has the focus.
	inTerminal = `document.activeElement.className.includes('xterm')`
)

// onScreen returns an expression that is true when the terminal shows a text.
func onScreen(text string) string { return fmt.Sprintf("(%s).includes(%q)", screen, text) }

// TestPage_HasATerminal runs commands in the terminal of a task.
func TestPage_HasATerminal(t *testing.T) {
	agent := startAgent(t)
	b := openBrowser(t, agent.addr)
	path := filepath.Join(t.TempDir(), "shell.hcl")
	err := os.WriteFile(path, []byte(shellJob), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	agent.run("job", "run", path)
	b.do(chromedp.Navigate(agent.addr + "/ui/allocations?search=shell"))
	b.click("tbody th a")
	b.clickLink("Command in shell")

	for _, s := range []struct {
		name string
		run  func(*testing.T, *browser)
	}{
		{"shell", useShell},
		{"size", resizeTerminal},
		{"drawing", drawInTerminal},
		{"interrupt", interruptCommand},
		{"looks", lookAtTerminal},
		{"keyboard", leaveTerminal},
		{"hostile", showHostileOutput},
		{"flood", floodTerminal},
		{"exit", exitShell},
	} {
		t.Run(s.name, func(t *testing.T) {
			b.t = t
			s.run(t, b)
			b.checkFaults(s.name)
		})
	}
}

// enter types a line into the terminal.
func (b *browser) enter(line string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(line + kb.Enter))
}

// useShell runs the command line that the form has, and uses its shell.
func useShell(t *testing.T, b *browser) {
	b.checkAccessibility("before the command")
	b.do(chromedp.Focus(chromedp.CSS("#exec-line")), chromedp.KeyEvent(kb.Enter))
	b.await("the command runs", execState+".startsWith('The command runs: sh')")
	b.await("the terminal has the focus", inTerminal)
	b.enter("test -t 0 && test -t 1 && echo terminals: $((1+1))")
	b.await("the shell has a terminal", onScreen("terminals: 2"))
}

// showSize draws the size of the terminal at its top again and again, each time by one write.
const showSize = `while :; do printf '\033[H\033[2J%s' "$(stty size)"; sleep 0.1; done`

// resizeTerminal changes the size of the window. The task sees it.
func resizeTerminal(t *testing.T, b *browser) {
	b.as(look{"wide", 1280, 800, "light", false})
	b.enter(showSize)
	const shown = `(` + screen + `).match(/^\s*(\d+) (\d+)\s*$/)`
	b.await("the task sees the size of the terminal", `(m => m && m[2] >= 80 &&
		Number(m[1]) === document.querySelectorAll('.xterm-rows > div').length)(`+shown+`)`)
	var rows, cols int
	line := eval[string](b, screen)
	if _, err := fmt.Sscan(line, &rows, &cols); err != nil {
		t.Fatalf("the terminal shows %q", line)
	}
	b.as(look{"narrow", 700, 500, "light", false})
	b.await("the task sees a smaller window", fmt.Sprintf(
		`(m => m && m[1] < %d && m[2] < %d)(%s)`, rows, cols, shown))
	b.as(looks[0])
	b.await("the task sees the former size", onScreen(fmt.Sprintf("%d %d", rows, cols)))
	b.do(chromedp.KeyEvent("c", chromedp.KeyModifiers(kb.ModifierCtrl)))
}

// drawInTerminal moves the cursor and draws in one of 16 million colours.
func drawInTerminal(t *testing.T, b *browser) {
	b.enter(`printf '\033[2J\033[5;10Hdra%s\033[48;2;1;2;3mblu%s\033[0m\033[7;1H' wn e`)
	b.await("the drawing", onScreen("drawnblue"))
	row := eval[string](b, "document.querySelectorAll('.xterm-rows > div')[4].textContent")
	if strings.Index(row, "drawnblue") != 9 {
		t.Errorf("the row is %q", row)
	}
	b.await("the colour", `[...document.querySelectorAll('.xterm-rows span')].some(s =>
		s.textContent === 'blue' && getComputedStyle(s).backgroundColor === 'rgb(1, 2, 3)')`)
}

// interruptCommand ends a command by Ctrl-C. The command itself says that it runs: the signal would go to the
// shell until the command has the terminal.
func interruptCommand(t *testing.T, b *browser) {
	b.enter("sh -c 'echo sleeping $((3+4)); exec sleep 86400'")
	b.await("the command sleeps", onScreen("sleeping 7"))
	b.do(chromedp.KeyEvent("c", chromedp.KeyModifiers(kb.ModifierCtrl)))
	b.enter("echo awake $((4+4))")
	b.await("the command has ended", onScreen("awake 8"))
}

// lookAtTerminal looks at the terminal in both schemes: it has their colours, also when they change.
func lookAtTerminal(t *testing.T, b *browser) {
	b.enter("clear; ls -l --color=always /")
	b.await("the files", onScreen("usr"))
	for _, l := range looks {
		b.as(l)
		b.await("the colours of "+l.name, `(() => {
			const probe = document.querySelector('main');
			const rows = document.querySelector('.xterm-rows');
			const ground = document.querySelector('.xterm-scrollable-element');
			return getComputedStyle(rows).color === getComputedStyle(probe).color &&
				getComputedStyle(ground).backgroundColor === getComputedStyle(document.body).backgroundColor;
		})()`)
		b.checkAccessibility("terminal, " + l.name)
		if wide := eval[int](b, "document.documentElement.scrollWidth - window.innerWidth"); wide > 0 {
			t.Errorf("%s: the view is %d pixels wider than the screen", l.name, wide)
		}
		b.screenshot("terminal-" + l.name)
	}
	b.as(looks[0])
}

// leaveTerminal leaves the terminal by its key alone: the shell gets all others.
func leaveTerminal(t *testing.T, b *browser) {
	b.do(chromedp.KeyEvent(kb.Tab))
	if !eval[bool](b, inTerminal) {
		t.Error("Tab leaves the terminal while the command runs")
	}
	b.do(chromedp.KeyEvent("L", chromedp.KeyModifiers(kb.ModifierCtrl, kb.ModifierShift)))
	b.await("the terminal has no focus", "document.activeElement.id === 'exec-line'")
	b.do(chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab))
	b.await("the keyboard reaches the terminal", inTerminal)
	b.do(chromedp.KeyEvent("c", chromedp.KeyModifiers(kb.ModifierCtrl)))
}

// watchEffects records the effects that the output of a task must not have.
const watchEffects = `(() => {
	window.effects = [];
	for (const name of ["open", "confirm", "alert", "prompt", "print", "moveTo", "resizeTo"]) {
		window[name] = () => { window.effects.push(name); };
	}
	document.execCommand = () => { window.effects.push("execCommand"); };
	for (const name of ["write", "writeText", "read", "readText"]) {
		navigator.clipboard[name] = async () => { window.effects.push("clipboard." + name); };
	}
	return true;
})()`

// hostileOutput has links, texts for the clipboard, titles, colours, sizes and HTML. Each one is a text for
// printf.
var hostileOutput = []string{
	`\033]8;;https://example.com/\033\\web-link\033]8;;\033\\\n`,
	`\033]8;;javascript:effects.push(1)\033\\script-link\033]8;;\033\\\n`,
	`\033]52;c;aGVsbG8=\007\033]52;c;?\007`,
	`\033]0;stolen\007\033]1;stolen\007\033]2;stolen\007`,
	`\033]11;#ff0000\007\033]10;#ff0000\007\033]4;0;#ff0000\007`,
	`\033[8;5;20t\033[3;0;0t\033[5t\033[21t\033[?3h`,
	`<img src=x onerror="effects.push(1)"><script>effects.push(2)</script>\n`,
}

// showHostileOutput shows output that tries to do more than to draw. A click on its links opens nothing.
func showHostileOutput(t *testing.T, b *browser) {
	eval[bool](b, watchEffects)
	const outside = `JSON.stringify([document.title, location.href, document.querySelectorAll('*').length -
		document.querySelectorAll('#terminal *').length,
		getComputedStyle(document.querySelector('.xterm-scrollable-element')).backgroundColor])`
	b.enter("clear; stty size; echo before $((2+3))")
	b.await("the command", onScreen("before 5"))
	before := eval[string](b, outside)
	b.enter("printf '" + strings.ReplaceAll(strings.Join(hostileOutput, ""), "'", "") + "'; echo after $((2+4))")
	b.await("the output", onScreen("after 6"))
	for _, link := range []string{"web-link", "script-link"} {
		b.clickRow(link)
	}
	if after := eval[string](b, outside); after != before {
		t.Errorf("outside of the terminal, the page was %s and is %s", before, after)
	}
	if effects := eval[string](b, "window.effects.join(' ')"); effects != "" {
		t.Errorf("the output calls %s", effects)
	}
	html := eval[int](b, "document.querySelectorAll('#terminal :is(img, script, a)').length")
	if html > 0 {
		t.Errorf("the output makes %d elements", html)
	}
	b.await("the HTML as text", onScreen(`<img src=x onerror="effects.push(1)">`))
}

// clickRow moves the mouse to the beginning of the last row with a text, and clicks it.
func (b *browser) clickRow(text string) {
	b.t.Helper()
	at := eval[[]float64](b, fmt.Sprintf(`(() => {
		const rows = [...document.querySelectorAll('.xterm-rows > div')];
		const row = rows.findLast(r => r.textContent.startsWith(%q));
		row.scrollIntoView({block: 'center'});
		const box = row.getBoundingClientRect();
		return [box.left + 12, box.top + box.height / 2];
	})()`, text))
	b.do(chromedp.MouseEvent(chromedp.MouseMoved, at[0]+9, at[1]),
		chromedp.MouseEvent(chromedp.MouseMoved, at[0], at[1]), chromedp.MouseClickXY(at[0], at[1]))
}

// floods are commands that write very much, or little that is very much work.
var floods = []string{
	"yes | head -c 4000000",
	`yes 0123456789 | tr -d '\n' | head -c 2000000`,
	`printf a; yes $(printf '\314\201') | tr -d '\n' | head -c 2000000`,
	`for f in b I L M S T Z; do printf "a\033[2147483647$f"; done`,
	`printf '\033]4;'; yes '1;?;' | tr -d '\n' | head -c 500000; printf '\007'`,
}

// floodTerminal draws each flood to its end. The page keeps a bounded part of it.
func floodTerminal(t *testing.T, b *browser) {
	for i, command := range floods {
		b.enter(fmt.Sprintf("stty -echo; %s; stty echo; echo; echo flood $((%d+1)) over", command, i))
		b.await(command, onScreen(fmt.Sprintf("flood %d over", i+1)))
		if spoken := eval[int](b, "document.querySelector('.live-region').textContent.length"); spoken > 20000 {
			t.Errorf("%s: a screen reader speaks %d characters", command, spoken)
		}
	}
	b.await("the scrollback has its most lines",
		`(n => n > 5000 && n < 5200)(Number(document.querySelector('[aria-setsize]').getAttribute('aria-setsize')))`)

	b.enter("yes endless")
	b.await("the flood", onScreen("endless\nendless\nendless"))
	b.do(chromedp.KeyEvent("c", chromedp.KeyModifiers(kb.ModifierCtrl)))
	b.enter("clear; echo calm $((3+4))")
	b.await("the flood ends by Ctrl-C", onScreen("calm 7"))
}

// exitShell ends the shell. The view shows its exit code, and the keyboard is that of the page again.
func exitShell(t *testing.T, b *browser) {
	b.enter("exit 5")
	b.await("the exit code", execState+".includes('exit code 5')")
	b.do(chromedp.KeyEvent(kb.Tab))
	if eval[bool](b, inTerminal) {
		t.Error("Tab does not leave the terminal of a command that has ended")
	}
}
