package refdocs

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/agent"
)

// shownCommand is a command as the generated page docs/reference/cli.md describes it.
type shownCommand struct {
	needs, takes int             // arguments: at least and at most
	options      map[string]bool // whether it takes a value, by name
}

var (
	headingRow = regexp.MustCompile("^## `berth ([^`]*)`$")
	optionRow  = regexp.MustCompile("^\\| `-([a-z-]+)( <[^`]*>)?` \\|")
	blockLine  = regexp.MustCompile(`^(?:sudo )?(?:\./bin/)?berth (.*)$`)
	inlineSpan = regexp.MustCompile("`berth ([^`]*)`")
)

// referenceCommands reads the commands of the reference by their path, "job run".
func referenceCommands(t *testing.T) map[string]*shownCommand {
	t.Helper()
	all := map[string]*shownCommand{}
	common := map[string]bool{}
	options := common
	for line := range strings.Lines(readDoc(t, "docs/reference/cli.md")) {
		line = strings.TrimSuffix(line, "\n")
		if m := headingRow.FindStringSubmatch(line); m != nil {
			c := &shownCommand{options: map[string]bool{}}
			options = c.options
			var words []string
			for _, word := range strings.Fields(m[1]) {
				switch word[0] {
				case '<':
					c.needs++
					c.takes++
				case '[':
					c.takes++
				default:
					words = append(words, word)
				}
				if strings.HasSuffix(word, "...") {
					c.takes = math.MaxInt
				}
			}
			all[strings.Join(words, " ")] = c
		}
		if m := optionRow.FindStringSubmatch(line); m != nil {
			options[m[1]] = m[2] != ""
		}
	}
	for _, c := range all {
		for name, value := range common {
			if _, own := c.options[name]; !own {
				c.options[name] = value
			}
		}
	}
	if len(all) < 20 || len(common) < 3 {
		t.Fatalf("the reference has %d commands and %d common options", len(all), len(common))
	}
	return all
}

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// isGenerated reports whether a page has no text by hand.
func isGenerated(name string) bool {
	for _, p := range pages {
		if name == path.Join("docs", "reference", p.name) {
			return true
		}
	}
	return false
}

// handWritten returns the pages for readers of this version that have a text by hand, by name.
func handWritten(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for name, text := range allPages(t) {
		folder := path.Dir(name)
		if folder == "." || strings.HasPrefix(name, "docs/") && folder != "docs/adr" && !isGenerated(name) {
			pages[name] = text
		}
	}
	return pages
}

// TestDocs_ShowCommandsThatExist compares every command line in a hand-written page with the reference. A
// command line in a block is complete. One in a sentence may omit arguments.
func TestDocs_ShowCommandsThatExist(t *testing.T) {
	commands := referenceCommands(t)
	shown := 0
	for page, text := range handWritten(t) {
		for line := range strings.Lines(text) {
			rest, isBlock := strings.CutPrefix(line, "    ")
			if m := blockLine.FindStringSubmatch(strings.TrimSpace(rest)); isBlock && m != nil {
				shown++
				checkCommand(t, commands, page, m[1], true)
			}
		}
		for _, m := range inlineSpan.FindAllStringSubmatch(text, -1) {
			shown++
			checkCommand(t, commands, page, m[1], false)
		}
	}
	if shown < 50 {
		t.Errorf("found %d command lines; does the test still find them all?", shown)
	}
}

// processes has the commands that only berth itself starts. Neither the help nor the reference lists them.
var processes = []string{"executor", "complete"}

func checkCommand(t *testing.T, commands map[string]*shownCommand, page, line string, whole bool) {
	t.Helper()
	words := shellWords(line)
	picture := strings.Contains(line, "──")
	if picture || len(words) > 0 && slices.Contains(processes, words[0]) {
		return
	}
	path := ""
	for n := range words {
		if at := strings.Join(words[:n+1], " "); commands[at] != nil {
			path = at
		}
	}
	c := commands[path]
	if c == nil {
		if whole || !isGroup(commands, strings.Join(words, " ")) {
			t.Errorf("%s shows berth %s, and there is no such command", page, line)
		}
		return
	}
	args := 0
	rest := words[len(strings.Fields(path)):]
	for i := 0; i < len(rest); i++ {
		name, isOption := strings.CutPrefix(rest[i], "-")
		if !isOption || name == "" { // "-" is the standard input
			args++
			continue
		}
		name, _, given := strings.Cut(name, "=")
		value, known := c.options[name]
		if !known {
			t.Errorf("%s shows berth %s, and %q has no option -%s", page, line, path, name)
		}
		if value && !given {
			i++
		}
	}
	if args > c.takes || whole && args < c.needs {
		t.Errorf("%s shows berth %s with %d arguments, and %q takes %d to %d", page, line, args, path,
			c.needs, c.takes)
	}
}

func isGroup(commands map[string]*shownCommand, path string) bool {
	for name := range commands {
		if strings.HasPrefix(name, path+" ") {
			return true
		}
	}
	return false
}

// shellWord is a word of a command. A quoted part may hold blanks.
var shellWord = regexp.MustCompile(`(?:"[^"]*"|'[^']*'|[^\s"'])+`)

// shellWords splits a command as a shell does, as far as the docs go, up to a comment, a pipe or a
// redirection.
func shellWords(line string) (words []string) {
	for _, word := range shellWord.FindAllString(line, -1) {
		isInput := word[0] == '<' && !strings.Contains(word, ">") // and no <argument>
		if isInput || strings.ContainsAny(word[:1], "#|>") {
			return words
		}
		words = append(words, strings.NewReplacer(`"`, "", "'", "").Replace(word))
	}
	return words
}

// TestOperations_ShowsConfigurationThatParses reads each block of docs/operations that is a configuration.
func TestOperations_ShowsConfigurationThatParses(t *testing.T) {
	begins := regexp.MustCompile(`^[a-z_]+ (=|\{)`)
	found := 0
	var block []string
	check := func() {
		text := strings.Join(block, "\n") + "\n"
		block = nil
		if !begins.MatchString(text) {
			return
		}
		found++
		file := filepath.Join(t.TempDir(), "agent.hcl")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := agent.DefaultConfig()
		if err := c.LoadFiles([]string{file}); err != nil {
			t.Errorf("docs/operations shows\n%s%v", text, err)
		}
	}
	for line := range strings.Lines(operations(t)) {
		if inner, ok := strings.CutPrefix(line, "    "); ok {
			block = append(block, strings.TrimRight(inner, "\n"))
			continue
		}
		check()
	}
	check()
	if found < 3 {
		t.Errorf("found %d blocks of configuration", found)
	}
}

// operations returns all pages of docs/operations, one behind the other.
func operations(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", "docs", "operations", "*.md"))
	if err != nil || len(names) == 0 {
		t.Fatalf("docs/operations has %d pages, %v", len(names), err)
	}

	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}
