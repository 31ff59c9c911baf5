package taskfiles

import (
	"maps"
	"slices"
	"strings"
	"text/template/parse"

	"berth/structs"
)

// templateFunctions are the functions of a template's text that Go's text/template does not have. The node
// implements them.
var templateFunctions = []string{
	"add", "base64Decode", "base64Encode", "base64URLDecode", "base64URLEncode", "berthService",
	"berthServices", "byKey", "byMeta", "byTag", "contains", "containsAll", "containsAny", "containsNone",
	"containsNotAll", "divide", "env", "envOrDefault", "executeTemplate", "explode", "explodeMap", "file",
	"hmacSHA256Hex", "in", "indent", "join", "key", "keyExists", "keyExistsGet", "keyOrDefault", "loop",
	"ls", "maximum", "md5sum", "mergeMap", "mergeMapWithOverride", "minimum", "modulo", "multiply",
	"mustEnv", "nomadService", "nomadServices", "nomadVar", "nomadVarExists", "nomadVarList",
	"nomadVarListSafe", "parseBool", "parseFloat", "parseInt", "parseJSON", "parseUint", "parseYAML",
	"regexMatch", "regexReplaceAll", "replaceAll", "safeLs", "safeTree", "scratch", "secret", "secrets",
	"service", "services",
	"sha256Hex", "sockaddr", "split", "splitToMap", "subtract",
	"timestamp", "toJSON", "toJSONPretty", "toLower", "toTOML", "toTitle", "toUnescapedJSON",
	"toUnescapedJSONPretty", "toUpper", "toYAML", "tree", "trim", "trimPrefix", "trimSpace", "trimSuffix",
}

var builtinTemplateFunctions = []string{
	"and", "call", "eq", "ge", "gt", "html", "index", "js", "le", "len", "lt", "ne", "not", "or", "print",
	"printf", "println", "slice", "urlquery",
}

// rejectedTemplateFunctions are functions of the dialect that berth rejects, by the reason.
var rejectedTemplateFunctions = map[string][]string{
	"of Consul, templates read services and keys alone": {
		"caLeaf", "caRoots", "connect", "datacenters", "exportedServices", "node", "nodes", "partitions",
		"peerings",
	},
	"let secret write to the path of the role":      {"pkiCert"},
	"a template runs no programs on the node":       {"plugin"},
	"a template writes no file but its destination": {"writeToFile"},
	"it shows the inside of values; use toJSON": {
		"spew_dump", "spew_printf", "spew_sdump", "spew_sprintf",
	},
}

// TemplateFunctions lists the functions of a template's text that Go's text/template does not have.
func TemplateFunctions() []string { return slices.Clone(templateFunctions) }

// ParseText parses a text with the delimiters of the template: EmbeddedTmpl, or the text of the file at
// SourcePath. The text calls only functions that a node has. The error is invalid, with a line for each
// function that no node has.
func ParseText(t *structs.Template, text string) (map[string]*parse.Tree, error) {
	trees, faults := parseText(t, text)
	if len(faults) > 0 {
		return nil, structs.InvalidAll(faults)
	}
	return trees, nil
}

// parseText is ParseText with a list of faults, so that a job gets all of them at once.
func parseText(t *structs.Template, text string) (trees map[string]*parse.Tree, faults []error) {
	// The parser keeps a tree that is many times as large as the text.
	if len(text) > structs.MaxTemplateText {
		return nil, []error{
			structs.Invalidf("the text has %d bytes; at most %d are allowed", len(text),
				structs.MaxTemplateText),
		}
	}

	trees = map[string]*parse.Tree{}
	tree := parse.New("text")

	// The functions are checked below, with a reason for each that is rejected.
	tree.Mode = parse.SkipFuncCheck
	_, err := tree.Parse(text, t.LeftDelim, t.RightDelim, trees)
	if err != nil {
		return nil, []error{structs.Invalidf("%s", structs.Cut(err.Error(), structs.MaxText))}
	}

	return trees, rejectedCalls(trees)
}

// rejectedCalls rejects each function that no node has, by the places of their first calls. It names at most
// MaxFaults.
func rejectedCalls(trees map[string]*parse.Tree) (faults []error) {
	called := map[string]parse.Pos{}
	for _, tree := range trees {
		visitTemplate(tree.Root, func(n parse.Node) {
			call, ok := n.(*parse.IdentifierNode)
			if !ok {
				return
			}

			// A function that is called often is one fault.
			first, seen := called[call.Ident]
			if !seen || call.Pos < first {
				called[call.Ident] = call.Pos
			}
		})
	}

	// In the order of the text, as a reader goes through it.
	names := slices.SortedFunc(maps.Keys(called), func(a, b string) int {
		return int(called[a] - called[b])
	})

	for _, name := range names {
		reason := rejection(name)
		if reason == "" {
			continue
		}

		faults = append(faults, structs.Invalidf("the function %s is rejected: %s",
			structs.Cut(name, structs.MaxQuoted), reason))
		if len(faults) == structs.MaxFaults {
			break
		}
	}

	return faults
}

// rejection returns the reason for which a text may not call a function, "" if it may.
func rejection(name string) string {
	if slices.Contains(builtinTemplateFunctions, name) || slices.Contains(templateFunctions, name) {
		return ""
	}

	for reason, names := range rejectedTemplateFunctions {
		if slices.Contains(names, name) {
			return reason
		}
	}

	// The functions of sprig have a list of their own.
	if ofSprig, ok := strings.CutPrefix(name, sprigPrefix); ok {
		return SprigRejection(ofSprig)
	}

	return "berth does not know it; it has: " + strings.Join(templateFunctions, ", ")
}

// visitTemplate calls visit for a node of a parsed template and for all nodes below it.
func visitTemplate(n parse.Node, visit func(parse.Node)) {
	visit(n)
	for _, child := range templateChildren(n) {
		visitTemplate(child, visit)
	}
}

// templateChildren returns the nodes directly below a node. Nodes without parts that can call a function have
// none.
func templateChildren(n parse.Node) (children []parse.Node) {
	// A call of a template without a value has no pipe.
	addPipe := func(p *parse.PipeNode) {
		if p == nil {
			return
		}

		for _, c := range p.Cmds {
			children = append(children, c)
		}
	}

	addBranch := func(b *parse.BranchNode) {
		addPipe(b.Pipe)
		children = append(children, b.List)
		if b.ElseList != nil {
			children = append(children, b.ElseList)
		}
	}

	switch n := n.(type) {
	case *parse.ListNode:
		return n.Nodes
	case *parse.ActionNode:
		addPipe(n.Pipe)
	case *parse.PipeNode:
		addPipe(n)
	case *parse.CommandNode:
		return n.Args
	case *parse.ChainNode:
		return []parse.Node{n.Node}
	case *parse.TemplateNode:
		addPipe(n.Pipe)
	case *parse.IfNode:
		addBranch(&n.BranchNode)
	case *parse.RangeNode:
		addBranch(&n.BranchNode)
	case *parse.WithNode:
		addBranch(&n.BranchNode)
	}

	return children
}
