// Package hclspec is the language of schemas in which a plugin announces its configuration. The code is made
// of hclspec.proto.
package hclspec
