// Package ucs has tests of integrations/ucs, the example of a workflow that gives a blade its boot LUN.
package ucs
