package structs

// The contexts of a search, in the dialect's words: the kinds of rows that it finds.
const (
	SearchAll    = "all"
	SearchAllocs = "allocs"
	SearchEvals  = "evals"

	SearchDeployments = "deployment"

	SearchJobs       = "jobs"
	SearchNamespaces = "namespaces"
	SearchNodePools  = "node_pools"
	SearchNodes      = "nodes"
	SearchPlugins    = "plugins"
	SearchVars       = "vars"
	SearchVolumes    = "volumes"
)

// The contexts of parts of jobs, which a search by a part of a name finds with the jobs.
const (
	SearchClasses  = "classes"
	SearchCommands = "commands"
	SearchGroups   = "groups"
	SearchImages   = "images"
	SearchTasks    = "tasks"
)

// MinSearchText is the least length of the text of a search by a part of a name, in bytes.
const MinSearchText = 2

// SearchPrefix finds rows by the beginnings of their IDs.
var SearchPrefix = Read[SearchRequest, SearchResponse]("Search.PrefixSearch")

// SearchRequest asks for the rows whose ID begins with the Prefix of the options.
type SearchRequest struct {
	Context string // "" is SearchAll
	QueryOptions
}

// SearchResponse has the IDs that match, by context: at most MaxSearched of each.
type SearchResponse struct {
	Matches     map[string][]string
	Truncations map[string]bool // the contexts with more than that
	QueryMeta
}

// SearchFuzzy finds rows by any part of their names.
var SearchFuzzy = Read[FuzzySearchRequest, FuzzySearchResponse]("Search.FuzzySearch")

// FuzzySearchRequest asks for the rows whose name has Text in it, in upper or lower case. Rows without names
// match by the beginnings of their IDs.
type FuzzySearchRequest struct {
	Text    string // MinSearchText bytes or more
	Context string // "" is SearchAll
	QueryOptions
}

// FuzzyMatch is a thing that matches. Scope has the IDs that lead to it: of an allocation, namespace and ID;
// of a task, namespace, job and group.
type FuzzyMatch struct {
	ID    string   // the name of a thing with a name
	Scope []string `json:",omitempty"`
}

// FuzzySearchResponse has the matches by context, the best first: at most MaxSearched of each.
type FuzzySearchResponse struct {
	Matches     map[string][]*FuzzyMatch
	Truncations map[string]bool // the contexts with more than that
	QueryMeta
}
