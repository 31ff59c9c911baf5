package operator

import (
	"cmp"
	"context"

	"berth/api"
	"berth/structs"
)

// searchBody is the body of a search, in the dialect's shape. Clients of the dialect name the namespace and
// the region here or as parameters.
type searchBody struct {
	Prefix     string `json:",omitempty"`
	Text       string `json:",omitempty"`
	Context    string
	Namespace  string `json:",omitempty"`
	Region     string `json:",omitempty"`
	AllowStale bool   `json:",omitempty"`
}

// apply sets the options of a search. Parameters come before the body.
func (b *searchBody) apply(q *structs.QueryOptions) {
	q.Namespace = cmp.Or(q.Namespace, b.Namespace)
	q.Region = cmp.Or(q.Region, b.Region)
	q.AllowStale = q.AllowStale || b.AllowStale
}

// SearchMatches is the answer of a search by the beginnings of IDs. See structs.SearchResponse.
type SearchMatches struct {
	Matches     map[string][]string
	Truncations map[string]bool
}

// FuzzyMatches is the answer of a search by parts of names. See structs.FuzzySearchResponse.
type FuzzyMatches struct {
	Matches     map[string][]*structs.FuzzyMatch
	Truncations map[string]bool
}

var searchPrefix = api.NewEndpoint(&table, api.Put, "/v1/search",
	api.ServeMethod(structs.SearchPrefix, bindSearch,
		func(r *structs.SearchResponse) *SearchMatches {
			return &SearchMatches{r.Matches, r.Truncations}
		}))

func bindSearch(c *api.Call, req *structs.SearchRequest) error {
	var body searchBody
	err := c.DecodeBody(&body)
	if err != nil {
		return err
	}
	if body.Text != "" {
		return structs.Invalidf("Text: this search has a Prefix; a Text is for /v1/search/fuzzy")
	}
	body.apply(&req.QueryOptions)
	req.Context = body.Context
	req.Prefix = cmp.Or(body.Prefix, req.Prefix)
	return nil
}

// SearchPrefix finds the IDs that begin with a prefix. kind is a context such as jobs, or "" for all.
func SearchPrefix(ctx context.Context, c *api.Client, prefix, kind string, q *api.Query) (
	*SearchMatches, error,
) {
	return searchPrefix.Send(ctx, c, api.Request{
		Query: api.QueryValues(q),
		Body:  searchBody{Prefix: prefix, Context: kind},
	})
}

var searchFuzzy = api.NewEndpoint(&table, api.Put, "/v1/search/fuzzy",
	api.ServeMethod(structs.SearchFuzzy, bindFuzzySearch,
		func(r *structs.FuzzySearchResponse) *FuzzyMatches {
			return &FuzzyMatches{r.Matches, r.Truncations}
		}))

func bindFuzzySearch(c *api.Call, req *structs.FuzzySearchRequest) error {
	var body searchBody
	err := c.DecodeBody(&body)
	if err != nil {
		return err
	}
	if body.Prefix != "" {
		return structs.Invalidf("Prefix: this search has a Text; a Prefix is for /v1/search")
	}
	body.apply(&req.QueryOptions)
	req.Context = body.Context
	req.Text = body.Text
	return nil
}

// SearchFuzzy finds things by a part of their names. kind is a context such as jobs, or "" for all.
func SearchFuzzy(ctx context.Context, c *api.Client, text, kind string, q *api.Query) (*FuzzyMatches, error) {
	return searchFuzzy.Send(ctx, c, api.Request{
		Query: api.QueryValues(q),
		Body:  searchBody{Text: text, Context: kind},
	})
}
