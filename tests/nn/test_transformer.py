import torch

from regard import Attention, Mask
from regard.attention import Cache
from regard.nn import DecoderLayer, EncoderLayer, FeedForward, Residual


def test_feed_forward_acts_at_each_position_alone() -> None:
    layer = FeedForward(4, 6)
    x = torch.randn(2, 3, 4)
    expected = torch.relu(x @ layer.widen.weight.T + layer.widen.bias) @ layer.narrow.weight.T + layer.narrow.bias
    torch.testing.assert_close(layer(x), expected)
    torch.testing.assert_close(layer(x[:, 1:2]), layer(x)[:, 1:2])


def test_norm_after_or_before() -> None:
    x = torch.randn(2, 3, 4)
    post, pre = (Residual(4, dropout=0.0, pre_norm=pre_norm) for pre_norm in (False, True))
    torch.testing.assert_close(post.leave(x, post.enter(x).sin()), post.norm(x + torch.sin(x)))
    torch.testing.assert_close(pre.leave(x, pre.enter(x).sin()), x + torch.sin(pre.norm(x)))


def test_encoder_layer_equals_torch() -> None:
    for pre_norm in (False, True):
        theirs = torch.nn.TransformerEncoderLayer(8, 2, 12, 0.0, batch_first=True, norm_first=pre_norm).eval()
        ours = EncoderLayer(8, num_heads=2, hidden_dim=12, attention=Attention(), pre_norm=pre_norm).eval()
        with torch.no_grad():
            for layer, weight, bias in zip(
                (ours.inner.to_query, ours.inner.to_keys, ours.inner.to_values),
                theirs.self_attn.in_proj_weight.chunk(3),
                theirs.self_attn.in_proj_bias.chunk(3),
                strict=True,
            ):
                layer.weight.copy_(weight)
                layer.bias.copy_(bias)
        ours.inner.to_output.load_state_dict(theirs.self_attn.out_proj.state_dict())
        ours.feed.widen.load_state_dict(theirs.linear1.state_dict())
        ours.feed.narrow.load_state_dict(theirs.linear2.state_dict())
        x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
        expected = theirs(x, src_key_padding_mask=padding)
        torch.testing.assert_close(
            ours(x, Mask.from_torch_key_padding(padding))[~padding], expected[~padding], atol=1e-5, rtol=1e-5
        )


def test_decoder_layer_steps_as_it_passes() -> None:
    parts = {"attention": Attention(), "cross_attention": Attention()}
    layer = DecoderLayer(8, num_heads=2, hidden_dim=12, **parts).double().eval()
    x, source = torch.randn(2, 4, 8, dtype=torch.float64), torch.randn(2, 6, 8, dtype=torch.float64)
    memory = layer.cross.prepare(source)
    allowed = torch.tensor([[[True] * 6], [[True] * 2 + [False] * 4]])
    whole, nothing, out = layer(x, memory, mask=allowed, need_weights=True)
    assert nothing is None
    assert out.weights.shape == (2, 2, 4, 6)
    cache = Cache()
    for t in range(4):
        step, cache, seen = layer(x[:, t : t + 1], memory, mask=allowed, cache=cache, need_weights=True)
        torch.testing.assert_close(step[:, 0], whole[:, t])
        torch.testing.assert_close(seen.weights[:, :, 0], out.weights[:, :, t])
    assert cache.length == 4
